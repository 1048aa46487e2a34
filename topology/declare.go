package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/internal/shell"
)

// Declare declares the queue, its dead-letter exchange and its dead-letter queue, all durable. With s.DelayQueues it
// also declares the delay queues. Bind the queue to exchanges of your own afterwards, with the client's QueueBind.
// Declare changes nothing that exists already with the same arguments, so it may be repeated, and called by several
// processes at the same time. One that declares partitions waits for others, as [Repartition] does.
//
// Declare makes the dead-letter route before a new queue, so that no message is ever rejected into nothing. The
// dead-letter exchange is a fanout, so that a dead letter keeps its routing key and no key can be mistyped.
//
// A quorum queue dead-letters at least once: it keeps a rejected message until the dead-letter queue has confirmed it.
// The dead-letter queue is a quorum queue in either case, and its messages may be read any number of times.
//
// Declare returns an error if a queue or exchange exists with other properties, and never changes an existing object.
// The error names the first difference with both values. Declare compares existing objects before it makes any. A queue
// whose node is down is an error after 5 to 50 s. The error lists the objects that had been made before it. Fix the
// cause and run Declare again.
//
// If ctx ends, Declare returns within a second. A declaration that has begun may still take effect.
func Declare(ctx context.Context, conn *amqp.Connection, s Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	s = s.withDefaults()
	if err := refuseLong(conn, s); err != nil {
		return err
	}
	if of, n, err := broker.PartitionedBy(ctx, conn, s.Queue); err != nil || of != "" {
		return cmp.Or(err, fmt.Errorf("topology: declare queue %q: %w: it is one of the %d partitions of queue %q: declare "+
			"them together (strikes declare --partitions %[3]d %[5]s)", s.Queue, ErrRefused, n, of, shell.Operands(of)))
	}
	if s.Partitions == 0 {
		if err := refusePartitioned(ctx, conn, s.Queue); err != nil {
			return fmt.Errorf("topology: declare queue %q: %w", s.Queue, err)
		}
		return declare(ctx, conn, existingFirst(ctx, conn, steps(s)))
	}
	return alone(ctx, conn, s.Queue, func() error {
		hash, err := hashFor(ctx, conn, s)
		if err != nil {
			return fmt.Errorf("topology: declare %d partitions of queue %q: %w", s.Partitions, s.Queue, err)
		}
		return declare(ctx, conn, append(existingFirst(ctx, conn, deadLetterSteps(s)), partitionSteps(s, hash)...))
	})
}

// refuseLong refuses a nil connection, and a name that is too long for the broker's answer that there is no such queue
// or exchange.
func refuseLong(conn *amqp.Connection, s Spec) error {
	if conn == nil {
		return fmt.Errorf("topology: queue %q: %w", s.Queue, broker.ErrNoConnection)
	}
	longest := broker.LongestName(conn, s.Queue)
	if s.Partitions > 0 {
		longest -= len(broker.HashExchange("", s.Partitions))
	}
	if len(s.Queue) <= longest {
		return nil
	}
	return fmt.Errorf("topology: %w", setting.New("Queue", s.Queue, fmt.Sprintf("at most %d bytes long, because the "+
		"broker's answers about names that are not ASCII have 255 bytes at most", longest)))
}

func declare(ctx context.Context, conn *amqp.Connection, all []step) error {
	done := []string{}
	for _, step := range all {
		if err := insist(ctx, func() error { return step.on(ctx, conn) }); err != nil {
			before := "nothing was declared"
			if len(done) > 0 {
				before = "declared before it: " + strings.Join(done, ", ")
			}
			return fmt.Errorf("topology: declare %s: %w (%s)", step.what, explain(ctx, conn, step, err), before)
		}
		if !step.exists {
			done = append(done, step.what)
		}
	}
	return nil
}

// existingFirst moves the steps of queues and exchanges that exist to the front. Such a step changes nothing, so a
// refusal comes before anything is made. It skips a name that is too long for an answer of the broker.
func existingFirst(ctx context.Context, conn *amqp.Connection, all []step) []step {
	ctx, cancel := context.WithTimeout(ctx, awayWait)
	defer cancel()
	var there, rest []step
	for _, s := range all {
		found, name := broker.No, s.queue+s.exchange
		switch {
		case len(name) > broker.LongestName(conn, name):
		case s.queue != "":
			found, _, _ = broker.FindQueue(ctx, conn, s.queue)
		case s.exchange != "":
			found, _ = broker.FindExchange(ctx, conn, s.exchange)
		}
		if s.exists = found == broker.Yes; s.exists {
			there = append(there, s)
		} else {
			rest = append(rest, s)
		}
	}
	return append(there, rest...)
}

// awayWait is how long a declaration is tried again if the broker replies that the node of its queue is down.
const awayWait = 5 * time.Second

// insist tries a declaration again while the node of its queue is down. RabbitMQ 4.3.6 may say so of a queue that
// another process is declaring.
func insist(ctx context.Context, declare func() error) error {
	for end := time.Now().Add(awayWait); ; {
		err := declare()
		if !broker.IsAway(err) || time.Now().After(end) || !pause.For(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

// step declares a queue, an exchange, or a binding if both names are empty.
type step struct {
	what            string
	do              func(*amqp.Channel) error
	queue, exchange string
	kind            string // of the queue
	exists          bool   // it was there before
}

// stepAnswers bounds a declaration. RabbitMQ 4.3.6 answers about a queue whose node was killed after 64 s.
const stepAnswers = 30 * time.Second

func (s step) on(ctx context.Context, conn *amqp.Connection) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepAnswers, broker.ErrAway)
	defer cancel()
	return broker.OnChannel(ctx, conn, s.do)
}

func steps(s Spec) []step {
	all := append(deadLetterSteps(s), queueStep(s.Queue, s.arguments()))
	if s.DelayQueues {
		all = append(all, delaySteps(s.Queue)...)
	}
	return all
}

// deadLetterSteps declare the dead-letter route.
func deadLetterSteps(s Spec) []step {
	return []step{
		exchangeStep(s.DeadLetterExchange, amqp.ExchangeFanout, nil),
		queueStep(s.DeadLetterQueue, broker.DeadLetterArguments()),
		bindStep(s.DeadLetterQueue, s.DeadLetterExchange, "", nil),
	}
}

// delaySteps declare the delay queues of a queue. Each queue is declared before a message can reach it.
func delaySteps(queue string) []step {
	all := []step{
		queueStep(broker.DelayLost, broker.DeadLetterArguments()),
		exchangeStep(broker.DelayLost, amqp.ExchangeFanout, nil),
		bindStep(broker.DelayLost, broker.DelayLost, "", nil),
		exchangeStep(broker.DelayExchange, amqp.ExchangeDirect, broker.DelayArguments()),
		bindStep(queue, broker.DelayExchange, queue, nil),
	}
	for _, b := range broker.DelayQueues {
		all = append(all, queueStep(b.Name, b.Arguments()), exchangeStep(b.Name, amqp.ExchangeFanout, nil),
			bindStep(b.Name, b.Name, "", nil))
	}
	return all
}

func exchangeStep(name, kind string, args amqp.Table) step {
	return step{what: fmt.Sprintf("exchange %q", name), exchange: name, do: func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(name, kind, true, false, false, false, args)
	}}
}

func queueStep(name string, args amqp.Table) step {
	kind, _ := args[broker.ArgType].(string)
	return step{what: fmt.Sprintf("queue %q", name), queue: name, kind: kind, do: func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		return err
	}}
}

func bindStep(queue, exchange, key string, args amqp.Table) step {
	what := fmt.Sprintf("binding of queue %q to exchange %q", queue, exchange)
	return step{what: what, do: func(ch *amqp.Channel) error { return ch.QueueBind(queue, key, exchange, false, args) }}
}

// explain says how an existing queue or exchange differs. Otherwise it returns the broker's reply. If the type of the
// queue differs, it names the type: the broker's reply often names an argument that queues of the other type lack.
func explain(ctx context.Context, conn *amqp.Connection, s step, err error) error {
	var reply *amqp.Error
	switch {
	case !errors.As(err, &reply):
		return err
	case reply.Code == amqp.AccessRefused && strings.Contains(reply.Reason, " refused for user "):
		return fmt.Errorf("%w; grant it to the user: docs/cli.md#permissions lists the permissions of declare", err)
	case reply.Code != amqp.PreconditionFailed:
		return err
	case s.queue == "":
		return different{difference(reply.Reason) + "; delete it, or choose another name", err}
	}
	seen := difference(reply.Reason)
	if have, unread := broker.ReadDeclared(ctx, conn, s.queue); unread == nil && have.Type != s.kind {
		seen = fmt.Sprintf("it exists with %s '%s', not '%s'", broker.ArgType, have.Type, s.kind)
	}
	return different{seen + "; a queue keeps the arguments it was declared with: drain and delete it, or declare another",
		err}
}

// different is a refusal in better words than those of the broker's reply.
type different struct {
	text  string
	reply error
}

func (d different) Error() string { return d.text }
func (d different) Unwrap() error { return d.reply }

// typed matches a value in the broker's refusal of a queue, which has its type too: the value '5' of type 'signedint'.
var typed = regexp.MustCompile(`the value ('.*?') of type '\w+'`)

// difference reads the broker's refusal: "… inequivalent arg 'type' for exchange 'x' in vhost '/': received 'topic'
// but current is 'direct'". It has this form on 3.10.8, 4.0.5 and 4.3.6. It names one property, the first that differs.
func difference(reason string) string {
	_, rest, _ := strings.Cut(reason, "inequivalent arg '")
	name, rest, _ := strings.Cut(rest, "'")
	_, values, _ := strings.Cut(rest, ": received ")
	wanted, current, found := strings.Cut(typed.ReplaceAllString(values, "$1"), " but current is ")
	if !found {
		return "it exists with other properties"
	}
	return fmt.Sprintf("it exists with %s %s, not %s", name, current, wanted)
}
