package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

// breakerFeature counts no failures while no message succeeds, see Consumer.Breaker.
var breakerFeature = feature{set: refuseBreaker, room: newBreakerRoom}

// freshPrefetch is how many messages beyond the prefetch are fetched when all of the prefetch have failed.
const freshPrefetch = 50

// breakerRoom lets attempts wait while no message succeeds.
type breakerRoom struct {
	noRoom
	s        *session
	gate     *breakerGate // of all sessions on the queue
	fetching atomic.Bool  // a gap in the tags is no loss: the second consumer may fill it, or the session ends
}

func refuseBreaker(c *Consumer) error {
	switch {
	case c.Breaker < 0 || c.Breaker == 1 || c.Breaker > rules.MaxBreaker:
		return refused(c.Queue, "Breaker", c.Breaker, fmt.Sprintf("2 to %d, or 0 for none", rules.MaxBreaker))
	case c.Patience < 0:
		return refused(c.Queue, "Patience", c.Patience, "0s or more")
	case c.Patience > 0 && c.Breaker == 0:
		return refused(c.Queue, "Patience", c.Patience, "0s without a Breaker")
	}
	return nil
}

func newBreakerRoom(s *session, before rooms) room {
	if s.Breaker == 0 {
		return nil
	}
	r := &breakerRoom{s: s}
	if last := find[*breakerRoom](before); last != nil {
		r.gate = last.gate
	} else {
		r.gate = newBreakerGate(s.settings) // it outlives the session
	}
	s.reports, s.failed = true, r.failed
	if !s.Ordered {
		s.more = make(chan amqp.Delivery)
		s.lacking = func() {
			if !r.fetching.Swap(true) { // a message that amqp091-go dropped returns to the queue with the session
				s.Logger.Info("a message came after the consumer beyond the prefetch had ended: another session begins, so that "+
					"it comes again", "queue", s.Queue)
				s.end()
			}
		}
	}
	return r
}

func (r *breakerRoom) mark(d *delivery, a *counter.Attempt) {
	a.Progress = r.gate.progress(d.outcome.began)
	kept[atBreaker](d, r).progress = a.Progress
}

// beforeAttempt lets a delivery wait while no message succeeds. It takes no worker, so that probes find one.
func (r *breakerRoom) beforeAttempt(ctx context.Context, d *delivery) (step, error) {
	if !r.gate.shut.Load() {
		return stepReceived, nil
	}
	r.s.release(ctx, d)
	w := kept[atBreaker](d, r)
	if w.probes == 0 && d.past.uncounted == 0 {
		r.s.observe(ctx, d, Event{Outcome: OutcomeHold,
			Err: errors.New("no message succeeds, so its attempt waits; see strikes status")})
	}
	w.first, w.failures = d.isFirst() && !d.again(), d.reply.Counted()+d.past.uncounted
	if !r.gate.wait(ctx, r.s.heldUntil(d), w) {
		return r.s.giveBack(ctx, d), nil
	}
	return stepReceived, nil
}

// failed is called after the reply to FAIL.
func (r *breakerRoom) failed(d *delivery) {
	r.gate.reported(kept[atBreaker](d, r).progress)
	first := d.reply.Counted() == 1 && d.reply.Code != rules.ReplyUncounted
	if d.outcome.cause == counter.CauseNotCounted {
		first = d.reply.Counted() == 0 && d.past.uncounted == 0
	}
	if first && d.outcome.cause != counter.CauseRejected { // a rejected message is at fault itself
		r.gate.failed(d.message.ID, d.outcome.failed.text)
	}
}

// beforeSettlement notes successes. A delivery whose failure is not counted waits at the gate if that is shut.
func (r *breakerRoom) beforeSettlement(ctx context.Context, d *delivery, next step) (step, error) {
	switch {
	case next == stepAck && d.number > 0 && d.outcome.failed == nil:
		r.gate.succeeded(d.outcome.began, d.outcome.began.Add(d.outcome.ran))
	case next == stepUncounted && r.gate.shut.Load(): // it waits at the gate
		d.past.uncounted = max(d.past.uncounted, 1)
		r.s.observe(ctx, d, Event{Outcome: OutcomeNotCounted, Err: d.outcome.err})
		return stepBegin, nil
	}
	return next, nil
}

// around reads the breaker until the session has ended. So the store also hears of a success during a stop.
func (r *breakerRoom) around(ctx context.Context, _ *amqp.Connection, consume func(context.Context) error) error {
	reading, end := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { r.gate.run(reading) })
	defer keeping.Wait()
	defer end()
	return consume(ctx)
}

// beside fetches fresh messages when the gate asks for them.
func (r *breakerRoom) beside(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case calm := <-r.gate.fetches:
			// A consumer that is accepted too late gets messages that nothing takes. They return with the channel.
			err := r.fresh(ctx, calm)
			if says := (*amqp.Error)(nil); errors.As(err, &says) && says.Code == amqp.NotAllowed {
				r.gate.mu.Lock()
				r.gate.fresh = false // consumer_max_per_channel is 1
				r.gate.mu.Unlock()
			}
			if err != nil && ctx.Err() == nil {
				r.s.fail(fmt.Errorf("consumer: queue %q: fetching messages beyond the prefetch: %w", r.s.Queue, err))
			}
		}
	}
}

// fresh takes messages beyond the prefetch until calm closes. If all messages in the prefetch always fail, no probe
// could succeed without them. They come with a second consumer on the channel, which has a prefetch of its own. That
// works with classic and quorum queues of 3.10.8, 4.0.5 and 4.3.6. A classic queue may deliver one more message after
// the cancel. amqp091-go drops it, and the gap in the tags of those that follow shows it.
func (r *breakerRoom) fresh(ctx context.Context, calm <-chan struct{}) error {
	if r.s.arrived.careful { // an undecodable message returns all others, so such a session prefetches one
		return nil
	}
	r.fetching.Store(true)
	channel, tag := r.s.link.channel, "strikes-"+token(tokens.Add(1)).String()
	more, err := bound.Await(ctx, openTimeout, func() (<-chan amqp.Delivery, error) {
		if err := channel.Qos(freshPrefetch, 0, false); err != nil {
			return nil, err
		}
		return channel.Consume(r.s.source, tag, false, false, false, false, nil)
	}, func(<-chan amqp.Delivery) {})
	if err != nil {
		return err
	}
	for {
		select {
		case d, ok := <-more:
			if !ok {
				r.fetching.Store(false)
				return nil
			}
			select {
			case r.s.more <- d:
			case <-ctx.Done():
			}
			continue
		case <-calm:
			calm = nil
		case <-ctx.Done():
		}
		// Without a reply it goes on to bring messages.
		_, _ = bound.Await(ctx, closeTimeout, func() (any, error) { return nil, channel.Cancel(tag, false) }, func(any) {})
		if ctx.Err() != nil {
			return nil
		}
	}
}
