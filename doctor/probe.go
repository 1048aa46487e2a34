package doctor

import (
	"context"
	"errors"
	"fmt"
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
	Proven   []string          // where the rejected message landed, a sentence for each queue
	Findings []inspect.Finding // where it did not land, or why no message was rejected
}

// Probe shows that a rejected message lands in every dead-letter queue. It does not touch the queue itself. It declares
// a scratch queue with the same dead-letter route, rejects a scratch message from it, and deletes it. The name of that
// queue begins with strikes.probe. The user needs the permission to configure, write and read such names.
//
// Probe takes the scratch message out of the dead-letter queues again. So it rejects one only if these are known and
// empty, and have no consumer. Otherwise a finding says why it did not, and how else to check the route. While an alarm
// of the broker blocks publishers, Probe tries nothing, because a scratch message would wait. It uses only Queue,
// Management and HTTPClient of need.
func Probe(ctx context.Context, conn *amqp.Connection, need inspect.Need) (Proof, error) {
	need.Closely = true
	f, err := inspect.Gather(ctx, conn, need, nil)
	if err != nil {
		return Proof{}, err
	}
	var proof Proof
	if alarms := Alarms(ctx, conn, need); len(alarms) > 0 && alarms[0].Severe() {
		proof.untried(alarms[0].Seen)
		return proof, nil
	}
	switch err := proof.landing(ctx, conn, f); {
	case broker.UnlessRefused(err) != nil:
		return proof, fmt.Errorf("probe queue %q: %w", need.Queue, err)
	case err != nil:
		proof.untried("the broker refused it: " + err.Error())
	}
	return proof, nil
}

// untried reports why no message was rejected.
func (p *Proof) untried(reason string) *inspect.Finding {
	p.Findings = append(p.Findings, inspect.Say("probe-refused", inspect.Vars{"reason": reason}))
	return &p.Findings[len(p.Findings)-1]
}

// landing rejects a message and takes it out of the dead-letter queues.
func (p *Proof) landing(ctx context.Context, conn *amqp.Connection, f inspect.Facts) error {
	if reason := unsafe(f); reason != "" {
		p.untried(reason)
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
		p.untried(reason).Fix = fmt.Sprintf("%s and probe again; or compare the dead letters there with the messages "+
			"that consumers rejected: strikes status --dead-letter-queue %s %s", first, shell.Word(q.Name),
			shell.Operands(f.Name))
		return nil
	}
	id := broker.Scratch + uuid.NewString() // of the message, and the name of its queue
	args := broker.Merge(landingArguments(f), amqp.Table{broker.ArgExpires: scratchExpires})
	return broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(id, true, false, false, false, args); err != nil {
			return err
		}
		missing, err := p.reject(ctx, conn, ch, id, f.Vitals.Targets)
		if len(missing) > 0 && err == nil {
			exchange, _ := f.DeadLetterExchange()
			p.Findings = append(p.Findings, inspect.Say("probe-lost", inspect.Vars{"queues": fmt.Sprintf("%q", missing),
				"exchange": fmt.Sprintf("%q", exchange), "wait": probeWait}))
		}
		if _, deleted := ch.QueueDelete(id, false, false, false); err == nil && !errors.Is(deleted, amqp.ErrClosed) {
			err = deleted
		}
		return err
	})
}

// reject publishes a message to the scratch queue, rejects it, and takes it out of the dead-letter queues. It returns
// those that it did not reach.
func (p *Proof) reject(ctx context.Context, conn *amqp.Connection, ch *amqp.Channel, id string, to []broker.Queue) (
	missing []string, err error) {
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	msg := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id,
		Body: []byte("a scratch message of strikes doctor --probe")}
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", id, true, false, msg)
	if err != nil {
		return nil, err
	}
	if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
		return nil, fmt.Errorf("publish to the scratch queue: not confirmed (acked: %v): %w", acked, err)
	}
	d, found, err := ch.Get(id, false)
	if err == nil && found { // else a policy let it expire, and it took the same route
		err = d.Nack(false, false)
	}
	for _, t := range to {
		if err != nil {
			return missing, err
		}
		var landed bool
		if landed, err = takeOut(ctx, conn, t.Name, id); landed {
			p.Proven = append(p.Proven, fmt.Sprintf("a rejected message landed in %q, and was taken out again", t.Name))
		} else {
			missing = append(missing, t.Name)
		}
	}
	return missing, err
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
