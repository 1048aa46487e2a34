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
)

const (
	// A scratch queue is deleted after use; if that fails, it expires.
	scratchExpires = int64(time.Minute / time.Millisecond)
	// probeWait is how long a scratch message may take. Dead letters of a quorum queue took 20 ms.
	probeWait = 5 * time.Second
)

// Proof is what a probe showed of a queue.
type Proof struct {
	Proven   []string          // what works, a sentence each
	Findings []inspect.Finding // what does not, and what could not be tried
}

// Probe shows where a requeued message goes, and that a rejected one lands in every dead-letter queue. It does not
// touch the queue itself: it uses scratch queues with its arguments, whose names begin with strikes.probe, and deletes
// them. The user needs the permission to configure, write and read such names.
//
// The rejected scratch message goes through the queue's dead-letter route, and is taken out of the dead-letter queues
// again. So it is tried only if these are known, empty, and without a consumer which could get it; else a finding says
// why not, and how else to learn it. Only Queue, Management and HTTPClient of need are used.
func Probe(ctx context.Context, conn *amqp.Connection, need inspect.Need) (Proof, error) {
	need.Closely = true
	f, err := inspect.Gather(ctx, conn, need, nil)
	if err != nil {
		return Proof{}, err
	}
	var proof Proof
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
		s := scratch{ch: ch, queue: "strikes.probe." + uuid.NewString()}
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
