package topology

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// declared is how a queue was declared.
type declared struct {
	kind       string // "classic", "quorum", "stream"
	durable    bool
	autoDelete bool
	args       amqp.Table
}

// unreadableError is the reason why AMQP does not tell how a queue was declared.
type unreadableError struct {
	reason string
	denied bool // for want of a permission
}

func (e unreadableError) Error() string { return e.reason }

// errExclusive: the queue belongs to one connection.
var errExclusive = errors.New("the queue is exclusive")

// probe keeps a declaration from ever creating a queue: an argument of streams
// is refused for a new queue of any other type, and not looked at when one
// exists. Measured on 3.10.8, 4.0.5 and 4.3.6.
var probe = amqp.Table{probeArg: int32(-1)}

const probeArg = "x-max-age"

// The broker compares few arguments; each costs one channel at most, or one for
// each guess.
const maxProbes = 64

// readArguments learns how the queue was declared from the refusals of
// declarations that differ: each names one argument and its value, until a
// declaration matches. The queue must exist, else it returns ErrQueueNotFound;
// the user needs the configure permission on it.
func readArguments(ctx context.Context, conn *amqp.Connection, queue string) (declared, error) {
	vhost := conn.Config.Vhost
	if !expressible(vhost, queue) {
		return declared{}, unreadableError{reason: "its name is too long, for one that is not ASCII, to be asked about over AMQP"}
	}
	r := reading{queue: queue, durable: true, args: amqp.Table{}, guesses: map[string][]any{}}
	for range maxProbes {
		reply, err := redeclare(ctx, conn, r)
		if err != nil {
			return declared{}, err
		}
		if reply == nil {
			return r.result(), nil
		}
		if err := r.learn(reply, vhost); err != nil {
			return declared{}, err
		}
		if r.args[argType] == "stream" { // which the probe would differ from for ever
			return r.result(), nil
		}
	}
	return declared{}, unreadableError{reason: "the broker's refusals of a redeclaration do not come to an end"}
}

// redeclare returns the broker's refusal, nil if the declaration matched.
func redeclare(ctx context.Context, conn *amqp.Connection, r reading) (*amqp.Error, error) {
	err := onChannel(ctx, conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(r.queue, r.durable, r.autoDelete, false, false, merge(r.args, probe))
		return err
	})
	var reply *amqp.Error
	if errors.As(err, &reply) && isRefusal(reply.Code) {
		return reply, nil
	}
	return nil, err
}

func isRefusal(code int) bool {
	return code == amqp.PreconditionFailed || code == amqp.AccessRefused || code == amqp.ResourceLocked
}

// reading is a declaration that comes nearer to a queue's own with each reply.
type reading struct {
	queue      string
	durable    bool
	autoDelete bool
	args       amqp.Table
	guesses    map[string][]any // by argument, those still to be tried
}

func (r *reading) learn(reply *amqp.Error, vhost string) error {
	switch reply.Code {
	case amqp.AccessRefused:
		if strings.Contains(reply.Reason, "reserved prefix") {
			return unreadableError{reason: "names that begin with amq. cannot be asked about over AMQP"}
		}
		return unreadableError{"the user lacks the configure permission on it, which asking over AMQP takes", true}
	case amqp.ResourceLocked:
		return errExclusive
	}
	d, ok := parseDifference(reply.Reason, vhost, r.queue)
	if !ok && strings.Contains(reply.Reason, "invalid arg '"+probeArg+"'") {
		return ErrQueueNotFound // deleted since it was seen
	}
	if !ok {
		return unreadableError{reason: fmt.Sprintf("the broker's refusal of a redeclaration is not understood: %q", reply.Reason)}
	}
	switch d.name {
	case "durable":
		r.durable = !r.durable
		return nil
	case "auto_delete":
		r.autoDelete = !r.autoDelete
		return nil
	}
	if d.cut {
		return r.guess(d.name)
	}
	if old, known := r.args[d.name]; known && old == d.value {
		return unreadableError{reason: fmt.Sprintf("the broker does not take %s = %v, though it says that this is the value", d.name, old)}
	}
	if d.value == nil && d.name == argType {
		d.value = string(Classic) // what a queue without the argument is
	}
	r.args[d.name] = d.value
	return nil
}

// guess tries the next likely value of an argument that the broker only names.
// A wrong guess is refused like any other, so only a right one is believed.
func (r *reading) guess(name string) error {
	left, begun := r.guesses[name]
	if !begun {
		left = guesses(r.queue, name)
	}
	if len(left) == 0 {
		return unreadableError{reason: fmt.Sprintf("the broker's answer about %s was cut at %d bytes: the names are too long", name, maxReply)}
	}
	r.args[name], r.guesses[name] = left[0], left[1:]
	return nil
}

func guesses(queue, name string) []any {
	switch name {
	case argType:
		return []any{"quorum", "classic", "stream"}
	case argDeadLetterExchange:
		return []any{Spec{Queue: queue}.withDefaults().DeadLetterExchange, ""}
	case argDeadLetterKey:
		return []any{Spec{Queue: queue}.withDefaults().DeadLetterQueue, queue}
	case argDeliveryLimit:
		return []any{int64(defaultDeliveryLimit), int64(-1)}
	case argOverflow:
		return []any{"reject-publish", "drop-head", "reject-publish-dlx"}
	case argStrategy:
		return []any{"at-least-once", "at-most-once"}
	case argSingleActive:
		return []any{true, false}
	}
	return nil
}

func (r *reading) result() declared {
	kind, ok := r.args[argType].(string)
	if !ok {
		kind = string(Classic)
	}
	return declared{kind: kind, durable: r.durable, autoDelete: r.autoDelete, args: r.args}
}

// onChannel runs f on a channel of its own: a refusal closes the channel.
// amqp091 takes no context: a call that has begun ends with its reply or with
// the connection.
func onChannel(ctx context.Context, conn *amqp.Connection, f func(*amqp.Channel) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	err = f(ch)
	if closeErr := ch.Close(); err == nil && !errors.Is(closeErr, amqp.ErrClosed) {
		return closeErr
	}
	return err
}
