package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
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

// Read sets the facts that AMQP knows about the declaration of the queue, which must exist, else it returns
// ErrNotFound. The user needs the configure permission on it, else the result is Unread. Policies stay unknown.
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
	switch {
	case !errors.As(err, &reply):
		return nil, err
	case isRefusal(reply.Code):
		return reply, nil
	case Unconverted(reply): // the answer names the dead-letter exchange, which may make it too long
		return nil, unreadableError{Reason: "the broker closed the connection with 541, as it does if its answer is too " +
			"long and not ASCII"}
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
	case amqp.NotFound:
		return unreadableError{Reason: reply.Reason}
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
	if d.cut { // the broker only names it: a wrong guess is refused like any other value
		left := r.guesses[d.name]
		if len(left) == 0 {
			return unreadableError{Reason: fmt.Sprintf("the broker's answer about %s was cut at %d bytes: the names are too "+
				"long", d.name, maxReply)}
		}
		r.Args[d.name], r.guesses[d.name] = left[0], left[1:]
		return nil
	}
	if old, known := r.Args[d.name]; known && old == d.value {
		return unreadableError{Reason: fmt.Sprintf("the broker refuses %s = %v, although it reports that value", d.name, old)}
	}
	if d.value == nil && d.name == ArgType {
		d.value = Classic // the type of a queue without the argument
	}
	r.Args[d.name] = d.value
	return nil
}

func (r *reading) result() Declared {
	kind, _ := r.Args[ArgType].(string)
	r.Type = cmp.Or(kind, Classic)
	return r.Declared
}

// difference is the broker's reply to a declaration that does not match: the first property that differs and the value
// it has.
type difference struct {
	name  string // an argument, or "durable", "auto_delete"
	value any    // nil: the argument is not set
	cut   bool   // the value did not fit into the reply
}

// A reply's text is an AMQP short string. One that does not fit ends in "..."; on 4.0.5 and 4.3.6 it ends the
// connection (541) if it is not all ASCII.
const maxReply = 255

// parseDifference reads the text of a 406 reply to the declaration of a queue. It has the same three forms on 3.10.8,
// 4.0.5 and 4.3.6:
//
//	… received 'classic' but current is 'quorum'
//	… received the value '5' of type 'signedint' but current is none
//	… received none but current is the value '7' of type 'signedint'
func parseDifference(text, vhost, queue string) (difference, bool) {
	_, rest, ok := strings.Cut(text, "inequivalent arg '")
	name, rest, quoted := strings.Cut(rest, "'")
	if !ok || !quoted {
		return difference{}, false
	}
	d := difference{name: name}
	where := fmt.Sprintf(" for queue '%s' in vhost '%s': received ", queue, vhost)
	current, found := "", false
	if rest, ok = strings.CutPrefix(rest, where); ok {
		_, current, found = strings.Cut(rest, " but current is ")
	}
	switch {
	case !found:
		d.cut = strings.HasSuffix(text, "...")
		return d, d.cut
	case current == "none":
		return d, true
	case strings.HasSuffix(text, "..."):
		d.cut = true
		return d, true
	}
	d.value, ok = parseValue(current)
	return d, ok
}

// parseValue reads 'quorum' or the value '7' of type 'signedint'.
func parseValue(s string) (any, bool) {
	typed, isTyped := strings.CutPrefix(s, "the value '")
	if !isTyped {
		bare, quoted := strings.CutPrefix(s, "'")
		bare, closed := strings.CutSuffix(bare, "'")
		return bare, quoted && closed
	}
	// The value may hold anything, the name of its type does not: take the last one.
	i := strings.LastIndex(typed, "' of type '")
	if i < 0 {
		return nil, false
	}
	return typedValue(typed[:i], strings.TrimSuffix(typed[i+len("' of type '"):], "'"))
}

func typedValue(value, kind string) (any, bool) {
	switch kind {
	case "longstr":
		return value, true
	case "bool":
		b, err := strconv.ParseBool(value)
		return b, err == nil
	case "float", "double":
		f, err := strconv.ParseFloat(value, 64)
		return f, err == nil
	}
	// Integers of every width are equal to the broker if their values are.
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil
}

// expressible reports whether the reply to a declaration of the queue fits, so that it is not cut in a name that is not
// ASCII. A value may be the name of the exchange or queue that strikes declares for its dead letters.
func expressible(vhost, queue string) bool {
	const text, value = 152, 48 // the longest text around the names and a value, and room for that
	return ascii(vhost+queue) || text+len(vhost)+len(queue)+max(value, len(DeadLetterQueueFor(queue))) <= maxReply
}
