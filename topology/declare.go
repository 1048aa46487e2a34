package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// Declare makes the queue, a fanout exchange for its dead letters, the
// dead-letter queue and the bindings, all durable. What exists already and is
// the same is left alone, so Declare may be repeated, and run by many at once.
//
// The way of the dead letters is made before the queue: there is no moment at
// which a message could be rejected into nothing. The exchange is a fanout so
// that a dead letter keeps its routing key and no key can be mistyped.
//
// A quorum queue dead-letters at least once: it keeps a rejected message until
// the dead-letter queue has confirmed it. The dead-letter queue is a quorum
// queue in either case, and may be looked into any number of times.
//
// A queue or exchange that exists with other properties is an error that names
// each of them with both values; nothing existing is ever changed. The error
// says what had been declared before it; run Declare again once it is mended.
//
// A call to the broker that has begun is not interrupted by ctx: it ends with
// its reply or with the connection.
func Declare(ctx context.Context, conn *amqp.Connection, s Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	s = s.withDefaults()
	var done []string
	for _, step := range steps(s) {
		err := queueinfo.OnChannel(ctx, conn, step.do)
		if err == nil {
			done = append(done, step.what)
			continue
		}
		err = explain(ctx, conn, step, err)
		if len(done) == 0 {
			return fmt.Errorf("topology: declare %s: %w (nothing was declared)", step.what, err)
		}
		return fmt.Errorf("topology: declare %s: %w (declared before it: %s)", step.what, err, strings.Join(done, ", "))
	}
	return nil
}

// step is one declaration; queue and args are those of a queue's.
type step struct {
	what  string
	do    func(*amqp.Channel) error
	queue string
	args  amqp.Table
}

func steps(s Spec) []step {
	all := []step{
		{what: fmt.Sprintf("exchange %q", s.DeadLetterExchange), do: func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(s.DeadLetterExchange, amqp.ExchangeFanout, true, false, false, false, nil)
		}},
		queueStep(s.DeadLetterQueue, queueinfo.DeadLetterArguments()),
		bindStep(s.DeadLetterQueue, Binding{Exchange: s.DeadLetterExchange}),
		queueStep(s.Queue, s.arguments()),
	}
	for _, b := range s.Bindings {
		all = append(all, bindStep(s.Queue, b))
	}
	return all
}

func queueStep(name string, args amqp.Table) step {
	return step{what: fmt.Sprintf("queue %q", name), queue: name, args: args, do: func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		return err
	}}
}

func bindStep(queue string, b Binding) step {
	what := fmt.Sprintf("binding of queue %q to exchange %q", queue, b.Exchange)
	return step{what: what, do: func(ch *amqp.Channel) error {
		return ch.QueueBind(queue, b.Key, b.Exchange, false, nil)
	}}
}

// explain says of a queue that exists otherwise in what it differs; of the
// rest, what the broker said.
func explain(ctx context.Context, conn *amqp.Connection, s step, err error) error {
	var reply *amqp.Error
	if !errors.As(err, &reply) || reply.Code != amqp.PreconditionFailed {
		return err
	}
	if s.queue == "" {
		return fmt.Errorf("%w: it exists otherwise; delete it, or choose another name", err)
	}
	have, readErr := queueinfo.ReadDeclared(ctx, conn, s.queue)
	if readErr != nil {
		return err
	}
	differs := differences(have, s.args)
	if len(differs) == 0 {
		return err
	}
	return fmt.Errorf("it exists with %s: a queue keeps the arguments it was declared with; "+
		"drain and delete it, or declare another: %w", strings.Join(differs, "; "), err)
}

// differences lists in what an existing queue is not what was to be declared,
// a durable queue with these arguments.
func differences(have queueinfo.Declared, want amqp.Table) []string {
	var out []string
	if !have.Durable {
		out = append(out, "durable=false, not true")
	}
	if have.AutoDelete {
		out = append(out, "auto-delete=true, not false")
	}
	current := queueinfo.Merge(amqp.Table{queueinfo.ArgType: have.Type}, have.Args)
	for _, name := range slices.Sorted(maps.Keys(queueinfo.Merge(current, want))) {
		if current[name] != want[name] {
			out = append(out, fmt.Sprintf("%s %s, not %s", name, shown(current, name), shown(want, name)))
		}
	}
	return out
}

func shown(args amqp.Table, name string) string {
	v, set := args[name]
	if !set {
		return "unset"
	}
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(v)
}
