package consumer

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/delay"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/broker"
)

// simWaiting is a message in a delay queue.
type simWaiting struct {
	*simMessage
	due time.Time
}

// simDelayTimeout is a minute and more with the delay queues: a delivery is held for half of it.
const simDelayTimeout = 10 * time.Minute

// simDelays are the backoffs with delay queues.
var simDelays = []time.Duration{200 * time.Millisecond, 61 * time.Second, 90 * time.Second, 3 * time.Minute,
	25 * time.Minute, 2 * time.Hour, 30 * time.Hour}

// delay is the backoff after so many failed attempts.
func (p *simPlan) delay(failed int) time.Duration {
	if !p.delayQueues {
		return time.Duration(failed) * 200 * time.Millisecond
	}
	return simDelays[(p.firstDelay+failed*5)%len(simDelays)]
}

// consumerTimeout is that of the broker.
func (p *simPlan) consumerTimeout() time.Duration {
	if p.delayQueues {
		return simDelayTimeout
	}
	return simConsumerTimeout
}

// delayQueues gives a session its delay queues, if the consumer has them.
func (s *simSession) delayQueues(r *delayRoom) {
	if !s.world.plan.delayQueues || s.world.plan.oldProcess && s.proc.id%2 == 0 {
		return
	}
	r.above, r.send = DefaultDelayAbove, s.sendCopy
	if s.world.plan.differ && s.proc.id%2 == 0 {
		r.above = 4 * time.Minute
	}
}

// sendCopy publishes to a delay queue, as copies does. A refused copy is not there; after other errors it may be.
func (s *simSession) sendCopy(ctx context.Context, delayQueue, _ string, copied amqp.Publishing) error {
	w := s.world
	ctx, cancel := context.WithTimeout(ctx, delay.Timeout)
	defer cancel()
	err := errSimDelayQueue
	op := &simOp{proc: s.proc, session: s.id, kind: "copy", number: numberOfCopy(copied)}
	op.act = func() bool { err = w.takeCopy(s, delayQueue, copied); return true }
	op.drop = func() {}
	op.killed = func() {
		if w.chance(2) { // it was sent before the process died
			w.wait(s, delayQueue, copied)
		}
	}
	w.park(op)
	select {
	case <-op.done:
		return err
	case <-ctx.Done():
	}
	over := &simOp{proc: s.proc, session: s.id, kind: "copy over", number: op.number, drop: func() {}}
	over.act = func() bool {
		if w.unpark(op) {
			err = ctx.Err()
			op.killed()
		}
		return true
	}
	w.park(over)
	<-over.done
	return err
}

// numberOfCopy tells the copies apart that one session sends.
func numberOfCopy(copied amqp.Publishing) int64 {
	sum := fnv.New32()
	fmt.Fprint(sum, copied.CorrelationId, copied.Headers[broker.CopyHeader], copied.Headers[FenceHeader])
	return int64(sum.Sum32())
}

var errSimDelayQueue = errors.New("the delay queue did not confirm")

// takeCopy puts a copy into its delay queue, as the broker does.
func (w *simWorld) takeCopy(s *simSession, delayQueue string, copied amqp.Publishing) error {
	if s.told || s.closed || s.cut {
		return amqp.ErrClosed
	}
	fate := 0
	if !w.calm {
		fate = w.rng.IntN(24)
	}
	switch fate {
	case 1, 2, 3:
		w.tell("a copy of %s is refused", copied.MessageId)
		return errSimDelayQueue
	case 4, 5, 6: // its confirm is lost
		w.wait(s, delayQueue, copied)
		return errSimDelayQueue
	case 7, 8:
		w.wait(s, delayQueue, copied)
	}
	w.wait(s, delayQueue, copied)
	return nil
}

// wait puts a copy into a delay queue.
func (w *simWorld) wait(s *simSession, delayQueue string, copied amqp.Publishing) {
	i := slices.IndexFunc(broker.DelayQueues, func(b broker.DelayQueue) bool { return b.Name == delayQueue })
	name := fmt.Sprintf("%s+%d", copied.CorrelationId, len(w.broker.queue)+len(w.broker.waiting)+1)
	m := &simMessage{name: name, origin: copied.CorrelationId, id: copied.MessageId, headers: maps.Clone(copied.Headers),
		body: copied.Body}
	w.broker.waiting = append(w.broker.waiting, &simWaiting{m, time.Now().Add(broker.DelayQueues[i].TTL)})
	w.note(audit.Event{Kind: audit.Copied, Process: s.proc.id, Session: s.id, Copy: name, ID: m.id,
		Seq: int(copied.Headers[broker.CopyHeader].(int64)), Err: delayQueue})
}

// expired is a message that a delay queue returns now; nil: none.
func (b *simBroker) expired() *simWaiting {
	for _, m := range b.waiting {
		if !m.due.After(time.Now()) {
			return m
		}
	}
	return nil
}

// expire returns a copy to the queue.
func (w *simWorld) expire(m *simWaiting) {
	w.broker.waiting = slices.DeleteFunc(w.broker.waiting, func(x *simWaiting) bool { return x == m })
	w.broker.queue = append(w.broker.queue, m.simMessage)
	w.tell("%s comes back from its delay queue", m.name)
}

// nextExpiry is how long it takes until a delay queue returns something; false: nothing waits.
func (b *simBroker) nextExpiry() (time.Duration, bool) {
	if len(b.waiting) == 0 {
		return 0, false
	}
	first := slices.MinFunc(b.waiting, func(x, y *simWaiting) int { return x.due.Compare(y.due) })
	return max(time.Until(first.due), 0) + 1, true
}

// Moved is sent once.
func (l *simLink) Moved(ctx context.Context, a counter.Attempt, number int64) error {
	_, err := l.call(ctx, &simRequest{name: audit.StepMoved, attempt: a, send: func(ctx context.Context,
		c Counter) (counter.Reply, error) {
		return counter.Reply{}, c.Moved(ctx, a, number)
	}})
	return err
}
