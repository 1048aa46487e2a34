package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
)

const (
	// A scratch queue is deleted after use; if that fails, it expires.
	scratchExpires = int64(time.Minute / time.Millisecond)
	// probeWait is how long a scratch message may take. Dead letters of a quorum queue took 20 ms.
	probeWait = 5 * time.Second
)

// Proof is the result of a probe of a queue.
type Proof struct {
	Proven   []string          // the abilities that were shown, a sentence each
	Findings []inspect.Finding // the failures, and the abilities that could not be tried
}

// Probe shows where a requeued message goes, and that a rejected one lands in every dead-letter queue. It does not
// touch the queue itself: it uses scratch queues with its arguments, whose names begin with strikes.probe, and deletes
// them. The user needs the permission to configure, write and read such names.
//
// The rejected scratch message goes through the queue's dead-letter route, and is taken out of the dead-letter queues
// again. So it is tried only if these are known, empty, and without a consumer which could get it; else a finding says
// why not, and how else to learn it. While an alarm of the broker blocks publishers, Probe tries nothing, because a
// scratch message would wait. Only Queue, Management and HTTPClient of need are used.
func Probe(ctx context.Context, conn *amqp.Connection, need inspect.Need) (Proof, error) {
	need.Closely = true
	f, err := inspect.Gather(ctx, conn, need, nil)
	if err != nil {
		return Proof{}, err
	}
	var proof Proof
	if alarms := Alarms(ctx, conn, need); len(alarms) > 0 && alarms[0].Severe() {
		proof.untried("nothing was tried, because a scratch message would wait", alarms[0].Seen)
		return proof, nil
	}
	for _, try := range []func(context.Context, *amqp.Connection, inspect.Facts) error{proof.requeue, proof.landing} {
		err := try(ctx, conn, f)
		if err := broker.UnlessRefused(err); err != nil {
			return proof, fmt.Errorf("probe queue %q: %w", need.Queue, err)
		}
		if err != nil {
			proof.untried("the broker refused it", err.Error())
		}
	}
	return proof, nil
}

func (p *Proof) found(entry string, v inspect.Vars) *inspect.Finding {
	p.Findings = append(p.Findings, inspect.Say(entry, v))
	return &p.Findings[len(p.Findings)-1]
}

func (p *Proof) untried(what, reason string) *inspect.Finding {
	return p.found("probe-refused", inspect.Vars{"what": what, "reason": reason})
}

// onScratch runs f on a channel with a scratch queue of these arguments.
func onScratch(ctx context.Context, conn *amqp.Connection, args amqp.Table, f func(scratch) error) error {
	return broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
		s := scratch{ch: ch, queue: broker.Scratch + uuid.NewString()}
		args = broker.Merge(args, amqp.Table{broker.ArgExpires: scratchExpires})
		if _, err := ch.QueueDeclare(s.queue, true, false, false, false, args); err != nil {
			return err
		}
		err := f(s)
		if _, deleted := ch.QueueDelete(s.queue, false, false, false); err == nil && !errors.Is(deleted, amqp.ErrClosed) {
			err = deleted
		}
		return err
	})
}

// scratch is a queue to try things on.
type scratch struct {
	ch    *amqp.Channel
	queue string
}

// fill publishes a message of each id with confirms, and returns the delivery of the first, and the others one at a
// time.
func (s scratch) fill(ctx context.Context, ids ...string) (first amqp.Delivery, rest <-chan amqp.Delivery, err error) {
	if err := errors.Join(s.ch.Confirm(false), s.ch.Qos(1, 0, false)); err != nil {
		return first, nil, err
	}
	for _, id := range ids {
		msg := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id,
			Body: []byte("a scratch message of strikes doctor --probe")}
		confirm, err := s.ch.PublishWithDeferredConfirmWithContext(ctx, "", s.queue, true, false, msg)
		if err != nil {
			return first, nil, err
		}
		if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
			return first, nil, fmt.Errorf("publish to the scratch queue: not confirmed (acked: %v): %w", acked, err)
		}
	}
	if rest, err = s.ch.ConsumeWithContext(ctx, s.queue, "", false, false, false, false, nil); err != nil {
		return first, nil, err
	}
	first, err = next(ctx, rest)
	return first, rest, err
}

var errSilent = fmt.Errorf("the scratch queue delivered nothing within %v", probeWait)

// next returns the next delivery, or errSilent.
func next(ctx context.Context, deliveries <-chan amqp.Delivery) (amqp.Delivery, error) {
	wait := time.NewTimer(probeWait)
	defer wait.Stop()
	select {
	case d, open := <-deliveries:
		if !open {
			return d, amqp.ErrClosed
		}
		return d, nil
	case <-wait.C:
		return amqp.Delivery{}, errSilent
	case <-ctx.Done():
		return amqp.Delivery{}, ctx.Err()
	}
}

// requeue requeues the first of three messages, and sees whether it comes again first, last or not at all.
func (p *Proof) requeue(ctx context.Context, conn *amqp.Connection, f inspect.Facts) error {
	const what = "where a requeued message goes was not tried"
	switch {
	case f.Exclusive:
		p.untried(what, "the queue is exclusive")
		return nil
	case f.Unread != "":
		p.untried(what, "the declaration of the queue cannot be read: "+f.Unread)
		return nil
	case f.Type != broker.Classic && f.Type != broker.Quorum:
		p.untried(what, fmt.Sprintf("the queue is of type %q", f.Type))
		return nil
	}
	return onScratch(ctx, conn, requeueArguments(f), func(s scratch) error {
		d, rest, err := s.fill(ctx, "1", "2", "3")
		if err == nil {
			err = d.Nack(false, true)
		}
		limit := inspect.Vars{"limit": broker.DefaultDeliveryLimit}
		for seen := 0; err == nil; seen++ {
			switch d, err = next(ctx, rest); {
			case errors.Is(err, errSilent) && seen == 2:
				p.found("probe-discards", limit)
				return nil
			case err != nil:
				return err
			case d.MessageId == "1" && seen == 0:
				p.Proven = append(p.Proven, "a requeued message was redelivered first")
				return d.Ack(false)
			case d.MessageId == "1":
				p.found("probe-tail", limit)
				return d.Ack(false)
			}
			err = d.Ack(false)
		}
		return err
	})
}

// requeueArguments are those that decide the position. The scratch queue drops its dead letters, whatever a policy for
// all queues says.
func requeueArguments(f inspect.Facts) amqp.Table {
	args := amqp.Table{
		broker.ArgType: f.Type, broker.ArgDeadLetterExchange: "", broker.ArgDeadLetterKey: "strikes.probe.none",
	}
	for name, value := range f.Args {
		if name == broker.ArgSingleActive || name == broker.ArgMaxPriority || strings.HasPrefix(name,
			"x-delayed-retry") {
			args[name] = value
		}
	}
	if limit, set := f.DeliveryLimit(); set && f.Type == broker.Quorum {
		args[broker.ArgDeliveryLimit] = limit
	}
	return args
}

// landing rejects a message and takes it out of the dead-letter queues.
func (p *Proof) landing(ctx context.Context, conn *amqp.Connection, f inspect.Facts) error {
	const what = "whether a rejected message lands was not tried"
	if reason := unsafe(f); reason != "" {
		p.untried(what, reason)
		return nil
	}
	for _, t := range f.Vitals.Targets {
		_, q, err := broker.FindQueue(ctx, conn, t.Name)
		if err != nil {
			return err
		}
		var reason, first string
		switch {
		case q.Consumers > 0:
			first = "stop its consumers for a moment"
			reason = fmt.Sprintf("%s of the dead-letter queue %q would get the scratch message", printable.Plural(q.Consumers,
				"consumer"), q.Name)
		case q.Messages > 0: // which quorum queues would count as delivered
			first = "replay or drop its dead letters (strikes dead)"
			reason = fmt.Sprintf("the dead-letter queue %q holds %s, which would be delivered before the scratch message",
				q.Name, printable.Plural(q.Messages, "dead letter"))
		default:
			continue
		}
		p.untried(what, reason).Fix = fmt.Sprintf("%s and probe again; or compare the dead letters there with the messages "+
			"that consumers rejected: strikes status --dead-letter-queue %s %s", first, shell.Word(q.Name),
			shell.Operands(f.Name))
		return nil
	}
	id := broker.Scratch + uuid.NewString()
	return onScratch(ctx, conn, landingArguments(f), func(s scratch) error {
		d, _, err := s.fill(ctx, id)
		if err == nil {
			err = d.Nack(false, false)
		}
		var missing []string
		for _, t := range f.Vitals.Targets {
			if err != nil {
				return err
			}
			var landed bool
			if landed, err = takeOut(ctx, conn, t.Name, id); landed {
				p.Proven = append(p.Proven, fmt.Sprintf("a rejected message landed in %q, and was taken out again", t.Name))
			} else {
				missing = append(missing, t.Name)
			}
		}
		if err == nil && len(missing) > 0 {
			exchange, _ := f.DeadLetterExchange()
			p.found("probe-lost", inspect.Vars{"queues": fmt.Sprintf("%q", missing), "exchange": fmt.Sprintf("%q", exchange),
				"wait": probeWait})
		}
		return err
	})
}

// unsafe says why a scratch message must not go through the dead-letter route; "" if it may.
func unsafe(f inspect.Facts) string {
	exchange, set := f.DeadLetterExchange()
	switch {
	case f.Exclusive || f.Type == "":
		return "the declaration of the queue cannot be read"
	case !set:
		return "no dead-letter exchange is seen"
	case f.Vitals == nil:
		return "the queues that dead letters reach cannot be seen over AMQP; give the URL of the management API " +
			"(Check.Management)"
	case len(f.Route.Loops) > 0:
		return "dead letters come back to the queue itself, where consumers would get it"
	case f.Chooses():
		return fmt.Sprintf("the exchange %q, or one behind it, routes dead letters by their keys or headers", exchange)
	case len(f.Vitals.Targets) == 0:
		return "the dead letters reach no queue"
	}
	for _, q := range f.Vitals.Targets {
		_, expires := q.TTL()
		if expires || q.SingleActive() || q.Exclusive || q.Type != broker.Classic && q.Type != broker.Quorum {
			return fmt.Sprintf("a message cannot be taken out of the dead-letter queue %q again (expiry, single active "+
				"consumer, exclusive, or a stream)", q.Name)
		}
	}
	return ""
}

// landingArguments are those that decide where dead letters go.
func landingArguments(f inspect.Facts) amqp.Table {
	exchange, _ := f.DeadLetterExchange()
	args := amqp.Table{broker.ArgType: f.Type, broker.ArgDeadLetterExchange: exchange}
	if key, fixed := f.DeadLetterKey(); fixed {
		args[broker.ArgDeadLetterKey] = key
	}
	if f.Type != broker.Quorum {
		return args
	}
	if f.DeadLetterStrategy() == "at-least-once" {
		args[broker.ArgStrategy] = "at-least-once"
	}
	if o := f.Overflow(); o != "" {
		args[broker.ArgOverflow] = o
	}
	return args
}

// takeOut waits for the message and acks it. It holds real dead letters that come meanwhile, and returns them.
func takeOut(ctx context.Context, conn *amqp.Connection, queue, id string) (landed bool, err error) {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	end := time.NewTimer(probeWait)
	defer end.Stop()
	err = broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
		defer func() { _ = ch.Nack(0, true, true) }() // RabbitMQ 4.3 and later do not count it as a return
		for {
			d, came, err := ch.Get(queue, false)
			switch {
			case err != nil:
				return err
			case came && d.MessageId == id:
				landed = true
				return d.Ack(false)
			case came: // it returns at the end
				continue
			}
			select {
			case <-poll.C:
			case <-end.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if errors.Is(err, amqp.ErrClosed) && landed {
		err = nil
	}
	return landed, err
}
