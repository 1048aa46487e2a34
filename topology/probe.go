package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

const (
	// A scratch queue is deleted when it was used; if that fails, it expires.
	scratchExpires = int64(time.Minute / time.Millisecond)
	// probeWait is how long a scratch message may take. Dead letters of a
	// quorum queue took 20 ms.
	probeWait = 5 * time.Second
)

// Proof is what was shown of a queue by trying it.
type Proof struct {
	Proven   []string  // what is as it should be, a sentence each
	Findings []Finding // what is not, and what could not be tried
}

// Probe shows where a requeued message goes, and that a rejected one lands in
// every dead-letter queue. The queue itself is left alone: it is tried on
// scratch queues with its arguments, whose names begin with strikes.probe, and
// which are deleted in the end. They take the permission to configure, write and
// read such names.
//
// The scratch message that is rejected goes the way of the queue's dead letters,
// and is taken out of the dead-letter queues again. So it is tried only where
// these are known, empty, and without a consumer which could get it; else a
// finding says why it was not, and how else to learn it.
//
// Of need it takes Queue, and Management to learn the dead-letter queues.
func Probe(ctx context.Context, conn *amqp.Connection, need Need) (Proof, error) {
	g, err := newGatherer(conn, need, true)
	if err != nil {
		return Proof{}, err
	}
	f, err := g.gather(ctx)
	if err != nil {
		return Proof{}, g.failed("probe", err)
	}
	var proof Proof
	for _, try := range []func(context.Context, *amqp.Connection, facts) (Proof, error){probePlace, probeLanding} {
		p, err := try(ctx, conn, f)
		if err := queueinfo.UnlessRefused(err); err != nil {
			return proof, g.failed("probe", err)
		}
		if err != nil {
			p = untried("the broker refused it", err.Error())
		}
		proof.Proven = append(proof.Proven, p.Proven...)
		proof.Findings = append(proof.Findings, p.Findings...)
	}
	return proof, nil
}

// untried is the proof that there is none.
func untried(what, reason string) Proof {
	return Proof{Findings: []Finding{{
		Code: "probe-refused", Severity: Warning,
		Seen: fmt.Sprintf("%s: %s", what, reason),
		Why:  "it was not proven",
		Fix:  "remove the reason, then probe again",
	}}}
}

// onScratch runs f on a channel that confirms and has one message at a time
// delivered, with a scratch queue of these arguments.
func onScratch(ctx context.Context, conn *amqp.Connection, args amqp.Table, f func(scratch) error) error {
	return queueinfo.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
		s := scratch{ch: ch, queue: "strikes.probe." + uuid.NewString()}
		args = queueinfo.Merge(args, amqp.Table{"x-expires": scratchExpires})
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

// fill publishes a message of each id and returns their deliveries, one at a
// time.
func (s scratch) fill(ctx context.Context, ids ...string) (<-chan amqp.Delivery, error) {
	if err := errors.Join(s.ch.Confirm(false), s.ch.Qos(1, 0, false)); err != nil {
		return nil, err
	}
	for _, id := range ids {
		msg := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id, Body: []byte("a scratch message of strikes doctor --probe")}
		confirm, err := s.ch.PublishWithDeferredConfirmWithContext(ctx, "", s.queue, true, false, msg)
		if err != nil {
			return nil, err
		}
		if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
			return nil, fmt.Errorf("the scratch queue did not take a message (acked: %v): %w", acked, err)
		}
	}
	return s.ch.ConsumeWithContext(ctx, s.queue, "", false, false, false, false, nil)
}

// next returns the next delivery, if one comes in time.
func next(ctx context.Context, deliveries <-chan amqp.Delivery) (amqp.Delivery, bool, error) {
	wait := time.NewTimer(probeWait)
	defer wait.Stop()
	select {
	case d, open := <-deliveries:
		if !open {
			return d, false, amqp.ErrClosed
		}
		return d, true, nil
	case <-wait.C:
		return amqp.Delivery{}, false, nil
	case <-ctx.Done():
		return amqp.Delivery{}, false, ctx.Err()
	}
}
