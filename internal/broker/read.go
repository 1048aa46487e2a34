package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// unreadableError says why AMQP does not report how a queue was declared.
type unreadableError struct {
	Reason string
	Denied bool // for lack of a permission
}

func (e unreadableError) Error() string { return e.Reason }

// errExclusive says that the queue belongs to one connection.
var errExclusive = errors.New("the queue is exclusive")

// probe keeps a declaration from ever creating a queue. It is an argument of streams: it is refused for a new queue of
// any other type, and ignored if the queue exists. Measured on 3.10.8, 4.0.5 and 4.3.6.
var probe = amqp.Table{probeArg: int32(-1)}

const probeArg = "x-max-age"

// The broker compares few arguments. Each costs one channel at most, or one for each guess.
const maxProbes = 64

// Read sets what AMQP says about the declaration of the queue, which must exist, else it returns ErrNotFound. The user
// needs the configure permission on it, else the result is Unread. Policies stay unknown.
func (q *Queue) Read(ctx context.Context, conn *amqp.Connection) error {
	d, err := ReadDeclared(ctx, conn, q.Name)
	var unread unreadableError
	switch {
	case errors.As(err, &unread):
		q.Unread, q.Denied = unread.Reason, unread.Denied
	case errors.Is(err, errExclusive):
		q.Exclusive = true
	case err != nil:
		return err
	}
	q.Declared = d
	return nil
}

// ReadDeclared learns how a queue was declared from the refusals of declarations that differ: each refusal names one
// argument and its value, until a declaration matches. It returns ErrNotFound, errExclusive, an unreadableError or an
// error of the connection.
func ReadDeclared(ctx context.Context, conn *amqp.Connection, queue string) (Declared, error) {
	vhost := conn.Config.Vhost
	if !expressible(vhost, queue) {
		return Declared{}, unreadableError{Reason: "its name is not ASCII and too long for an answer over AMQP"}
	}
	r := read(queue)
	for range maxProbes {
		reply, err := redeclare(ctx, conn, r)
		if err != nil {
			return Declared{}, err
		}
		if reply == nil {
			return r.result(), nil
		}
		if err := r.learn(reply, vhost); err != nil {
			return Declared{}, err
		}
		if r.Args[ArgType] == Stream { // the probe always differs from a stream
			return r.result(), nil
		}
	}
	return Declared{}, unreadableError{Reason: fmt.Sprintf("the broker still refuses a redeclaration after %d attempts",
		maxProbes)}
}

// redeclare returns the broker's refusal, nil if the declaration matched.
func redeclare(ctx context.Context, conn *amqp.Connection, r reading) (*amqp.Error, error) {
	err := OnChannel(ctx, conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(r.queue, r.Durable, r.AutoDelete, false, false, Merge(r.Args, probe))
		return err
	})
	var reply *amqp.Error
	if errors.As(err, &reply) && isRefusal(reply.Code) {
		return reply, nil
	}
	return nil, err
}

// reading is a declaration that comes nearer to the queue's own with each reply.
type reading struct {
	queue string
	Declared
	guesses map[string][]any // by argument: values not tried yet
}

func read(queue string) reading {
	return reading{queue, Declared{Durable: true, Args: amqp.Table{}}, map[string][]any{
		ArgType:               {Quorum, Classic, Stream},
		ArgDeadLetterExchange: {ExchangeFor(queue), ""},
		ArgDeadLetterKey:      {DeadLetterQueueFor(queue), queue},
		ArgDeliveryLimit:      {int64(DefaultDeliveryLimit), int64(-1)},
		ArgOverflow:           {"reject-publish", "drop-head", "reject-publish-dlx"},
		ArgStrategy:           {"at-least-once", "at-most-once"},
		ArgSingleActive:       {true, false},
	}}
}

func (r *reading) learn(reply *amqp.Error, vhost string) error {
	switch reply.Code {
	case amqp.AccessRefused:
		if strings.Contains(reply.Reason, "reserved prefix") {
			return unreadableError{Reason: "AMQP does not answer for names that begin with amq."}
		}
		return unreadableError{"the user lacks the configure permission on it", true}
	case amqp.ResourceLocked:
		return errExclusive
	}
	d, ok := parseDifference(reply.Reason, vhost, r.queue)
	if !ok && strings.Contains(reply.Reason, "invalid arg '"+probeArg+"'") {
		return ErrNotFound // deleted since it was seen
	}
	if !ok {
		return unreadableError{Reason: fmt.Sprintf("the broker's refusal of a redeclaration is not understood: %q",
			reply.Reason)}
	}
	switch d.name {
	case "durable":
		r.Durable = !r.Durable
		return nil
	case "auto_delete":
		r.AutoDelete = !r.AutoDelete
		return nil
	}
	if d.cut {
		return r.guess(d.name)
	}
	if old, known := r.Args[d.name]; known && old == d.value {
		return unreadableError{Reason: fmt.Sprintf("the broker refuses %s = %v, although it reports that value", d.name, old)}
	}
	if d.value == nil && d.name == ArgType {
		d.value = Classic // what a queue without the argument is
	}
	r.Args[d.name] = d.value
	return nil
}

// guess takes the next likely value of an argument that the broker only names. A wrong guess is refused like any other
// value.
func (r *reading) guess(name string) error {
	left := r.guesses[name]
	if len(left) == 0 {
		return unreadableError{Reason: fmt.Sprintf("the broker's answer about %s was cut at %d bytes: the names are too long",
			name, maxReply)}
	}
	r.Args[name], r.guesses[name] = left[0], left[1:]
	return nil
}

func (r *reading) result() Declared {
	kind, _ := r.Args[ArgType].(string)
	r.Type = cmp.Or(kind, Classic)
	return r.Declared
}
