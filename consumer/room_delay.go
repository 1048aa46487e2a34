package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/consumer/internal/delay"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
)

// DefaultDelayAbove is DelayAbove if that is zero: one minute.
const DefaultDelayAbove = time.Minute

// delayLease is how long after the handler timeout an open attempt at a moved message still counts as running.
const delayLease = 30 * time.Second

// delayFeature moves messages that must wait for long to delay queues, see Consumer.DelayAbove.
var delayFeature = feature{set: refuseDelay, room: func(s *session, _ rooms) room { return &delayRoom{s: s} }}

// refuseDelay refuses a DelayAbove that would break the order, or that is longer than a delivery may be held.
func refuseDelay(c *Consumer) error {
	most := max(cmp.Or(c.ConsumerTimeout, DefaultConsumerTimeout)/2, DefaultDelayAbove)
	switch {
	case c.DelayAbove > 0 && c.Ordered:
		return refused(c.Queue, "DelayAbove", c.DelayAbove,
			"0 when Ordered, because a message that waits elsewhere is overtaken")
	case c.DelayAbove > 0 && (c.DelayAbove < DefaultDelayAbove || c.DelayAbove > most):
		return refused(c.Queue, "DelayAbove", c.DelayAbove, fmt.Sprintf("%v to %v, half the consumer timeout; 0 for %v, "+
			"negative for no delay queues", DefaultDelayAbove, most, DefaultDelayAbove))
	}
	return nil
}

// delayRoom publishes messages that must wait for longer than above to a delay queue, after which they are acked.
type delayRoom struct {
	noRoom
	s     *session
	above time.Duration // 0: nothing is moved
	// send returns nil once the copy is confirmed
	send func(ctx context.Context, delayQueue, queue string, copied amqp.Publishing) error
	end  func() // after the last send
}

// check finds the delay queues. A positive DelayAbove requires them.
func (r *delayRoom) check(ctx context.Context, conn *amqp.Connection) error {
	s := r.s
	if s.DelayAbove < 0 || s.Ordered {
		return nil
	}
	why, found, err := r.trouble(ctx, conn)
	switch {
	case err != nil:
		return fmt.Errorf("consumer: queue %q: checking the delay queues: %w", s.Queue, err)
	case why == "":
		sent := delay.NewPublisher(conn)
		r.above, r.send, r.end = cmp.Or(s.DelayAbove, DefaultDelayAbove), sent.Send, sent.Close
	case s.DelayAbove > 0:
		return refusal{refused(s.Queue, "DelayAbove", s.DelayAbove,
			"0 or negative, because the delay queues cannot be used: "+why)}
	case found:
		s.Logger.Warn("the delay queues cannot be used; messages with long delays are held", "queue", s.Queue, "why", why)
	}
	return nil
}

func (r *delayRoom) around(ctx context.Context, _ *amqp.Connection, consume func(context.Context) error) error {
	err := consume(ctx)
	if r.end != nil {
		_ = bound.Within(closeTimeout, r.end)
	}
	return err
}

// trouble returns why the session cannot use the delay queues, empty if it can, and whether the virtual host has
// one.
func (r *delayRoom) trouble(ctx context.Context, conn *amqp.Connection) (why string, found bool, err error) {
	s := r.s
	exist, wrong, unread, err := broker.DelayQueuesOf(ctx, conn)
	if err != nil {
		return "", false, err
	}
	found = exist == broker.Yes
	for _, one := range unread {
		s.Logger.Warn("the delay queues could not be checked", "queue", s.Queue, "seen", one)
	}
	least := broker.LongestDelay + min(s.HandlerTimeout, s.ConsumerTimeout) + ttlMargin
	switch {
	case !found:
		return "its queues do not exist; declare them: topology.Declare with DelayQueues", false, nil
	case len(wrong) > 0:
		return strings.Join(wrong, "; ") + "; drain and delete what differs, then declare it again: topology.Declare " +
			"with DelayQueues", true, nil
	case s.Counter.TTL() < least:
		return fmt.Sprintf("the TTL of Counter is %v, and must be at least %v, because a message may wait for a day",
			s.Counter.TTL(), least), true, nil
	}
	err = broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error { // the queue may have been declared again
		return ch.QueueBind(s.Queue, s.Queue, broker.DelayExchange, false, nil)
	})
	if err != nil && broker.UnlessRefused(err) == nil {
		if s.DelayAbove > 0 {
			return "", true, refusal{fmt.Errorf("the queue cannot be bound to %q, over which messages come back: %w",
				broker.DelayExchange, err)}
		}
		return fmt.Sprintf("the queue cannot be bound to %q, over which messages come back: %v", broker.DelayExchange,
			err), true, nil
	}
	return "", true, err
}

// moving is the state of a delivery's move to a delay queue.
type moving struct {
	body   string // the fingerprint of its message
	failed int    // copies in a row that the broker did not take
}

func (r *delayRoom) mark(d *delivery, a *counter.Attempt) {
	number := d.copyNumber()
	if r.above == 0 && number == 0 {
		return
	}
	m := kept[moving](d, r)
	if m.body == "" {
		m.body = delay.Fingerprint(&d.Delivery)
	}
	a.Delay = rules.Delay{CopyNumber: number, Body: m.body,
		Lease: min(r.s.HandlerTimeout, r.s.ConsumerTimeout) + delayLease, Above: r.above}
}

// beforeSettlement publishes the copy of a message after the reply MOVE. It returns stepMoved once the copy is
// confirmed, else the step that asks the store again, because the copy may no longer be needed.
func (r *delayRoom) beforeSettlement(ctx context.Context, d *delivery, next step) (step, error) {
	if next != stepMove {
		return next, nil
	}
	if ctx.Err() != nil {
		return stepLeave, nil
	}
	m := kept[moving](d, r)
	err := r.publish(ctx, d)
	switch {
	case err == nil:
		m.failed = 0
		r.noteMoved(ctx, d)
		return stepMoved, nil
	case ctx.Err() != nil:
		return stepLeave, nil
	}
	m.failed++
	if m.failed == 1 {
		r.s.observe(ctx, d, Event{Outcome: OutcomeHold, Err: err})
		r.s.Logger.Warn("the delay queue did not take a message; it is held, and the move is repeated", "queue", r.s.Queue,
			"error", err)
	}
	wait, next := decideWait(min(storeBackoff(m.failed), d.reply.Wait), time.Until(r.s.heldUntil(d)), d.asked)
	switch {
	case !pause.For(ctx, wait):
		return stepLeave, nil
	case next == stepOverdue:
		return r.s.overdue(d), nil
	}
	return next, nil
}

var errNoDelay = errors.New("consumer: the store asks to move a message, but this consumer has no delay queues")

func (r *delayRoom) publish(ctx context.Context, d *delivery) error {
	delayQueue, fits := broker.DelayQueueFor(d.reply.Wait)
	if r.above == 0 || !fits {
		return errNoDelay
	}
	copied := delay.Copy(&d.Delivery, d.ours, delay.Fields{Queue: r.s.Queue, Generation: d.message.Generation,
		CopyNumber: d.reply.CopyNumber, Fence: max(carriedFence(d.ours), d.reply.Fence)})
	if err := r.send(ctx, delayQueue.Name, r.s.Queue, copied); err != nil {
		return fmt.Errorf("consumer: queue %q: publishing a message to a delay queue, exchange %q: %w", r.s.Queue,
			delayQueue.Name, err)
	}
	return nil
}

// noteMoved reports once that the copy is confirmed. If the report is lost, the START of the copy replaces it.
func (r *delayRoom) noteMoved(ctx context.Context, d *delivery) {
	_ = bound.Step(ctx, stepTimeout, func(ctx context.Context) error {
		return r.s.Counter.Moved(ctx, r.s.counted(d), d.reply.CopyNumber)
	})
}
