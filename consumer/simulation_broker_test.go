package consumer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/audit"
)

// simMessage is one message in the queue. Two copies of a message are two of them with one id.
type simMessage struct {
	name, id    string
	partition   int
	redelivered bool
	holder      *simSession // that it is unsettled in
	gone        bool        // acked or dead-lettered
	arrives     time.Time   // in the dead-letter queue

	origin  string // the name of the publication that it is a copy of
	headers amqp.Table
	body    []byte
}

// simBroker is one queue: in the order of publishing, a requeued message in its place, redelivered whether or not a
// handler has seen it.
type simBroker struct {
	queue   []*simMessage
	waiting []*simWaiting // in the delay queues
	dead    []*simMessage // dead letters, in schedules with blocked lanes
}

func (w *simWorld) publish(m simMessagePlan, n int) {
	name := fmt.Sprintf("%s.%d", m.id, n+1)
	w.broker.queue = append(w.broker.queue, &simMessage{name: name, origin: name, id: m.id, body: []byte(m.body(n)),
		partition: w.plan.partitionOf(m.lane)})
	w.note(audit.Event{
		Kind: audit.Published, Copy: name, ID: m.id, Lane: m.lane, Do: m.does.name, Seq: len(w.broker.queue),
		Outcome: audit.Confirmed,
	})
}

// next is the message that the broker would deliver to s now.
func (b *simBroker) next(s *simSession) *simMessage {
	if s.gone() || len(s.unsettled) >= s.world.plan.prefetch || s.world.plan.ordered && s != s.world.active(s.partition) {
		return nil
	}
	for _, m := range b.queue {
		if !m.gone && m.holder == nil && m.partition == s.partition {
			return m
		}
	}
	return nil
}

// active is the one consumer that a single-active-consumer queue, or a partition, delivers to: the first that
// subscribed of those that are there.
func (w *simWorld) active(partition int) *simSession {
	var first *simSession
	for _, p := range w.procs {
		for _, s := range p.sessions {
			if !s.gone() && s.partition == partition && (first == nil || s.id < first.id) {
				first = s
			}
		}
	}
	return first
}

func (w *simWorld) deliver(s *simSession, m *simMessage) {
	s.tags++
	m.holder = s
	s.unsettled[s.tags], s.copies[s.tags] = m, m.name
	w.note(audit.Event{
		Kind: audit.Delivered, Process: s.proc.id, Session: s.id, Tag: s.tags, Copy: m.name, ID: m.id,
		Redelivered: m.redelivered,
	})
	s.deliveries <- amqp.Delivery{Acknowledger: s, MessageId: m.id, DeliveryTag: s.tags, Redelivered: m.redelivered,
		Headers: m.headers, Body: m.body, CorrelationId: m.origin}
}

// release returns everything that is unsettled in s.
func (b *simBroker) release(s *simSession) {
	for _, m := range b.queue {
		if m.holder == s {
			m.holder, m.redelivered = nil, true
		}
	}
	clear(s.unsettled)
}

// cut ends a session at the broker. Its process is told later, or never.
func (w *simWorld) cut(s *simSession) {
	s.cut = true
	if w.plan.hold || w.plan.whole || w.plan.partitions > 0 && !w.calm {
		s.zombie = time.Now().Add(time.Duration(w.rng.Int64N(int64(20 * time.Second))))
	}
	w.broker.release(s)
	w.note(audit.Event{Kind: audit.Cut, Process: s.proc.id, Session: s.id})
}

// restart ends every session, and forgets of the messages which had been returned before that they were delivered: a
// classic queue of RabbitMQ 4.3 does.
func (w *simWorld) restart() {
	for _, m := range w.broker.queue {
		if !m.gone && m.holder == nil && m.redelivered {
			m.redelivered = false
			w.note(audit.Event{Kind: audit.Forgetful, Copy: m.name, ID: m.id})
		}
	}
	for _, p := range w.procs {
		for _, s := range p.sessions {
			if !p.dead.Load() && !s.cut && !s.closed {
				w.cut(s)
			}
		}
	}
}

// settleUpTo settles everything that is unsettled up to a tag.
func (w *simWorld) settleUpTo(s *simSession, tag uint64, what string) error {
	covered := slices.Sorted(maps.Keys(s.unsettled))
	covered = slices.DeleteFunc(covered, func(t uint64) bool { return t > tag })
	if len(covered) == 0 || s.told || s.closed || s.cut {
		return w.settle(s, tag, what)
	}
	for _, t := range covered {
		_ = w.settle(s, t, what) // the broker takes it
	}
	return nil
}

// settle carries out a settlement as the broker does. It replies only where the protocol has a reply.
func (w *simWorld) settle(s *simSession, tag uint64, what string) error {
	e := audit.Event{Kind: audit.Settled, Process: s.proc.id, Session: s.id, Tag: tag, Decision: what}
	switch m := s.unsettled[tag]; {
	case s.told || s.closed:
		e.Err = "refused: the channel is closed"
		w.note(e)
		return amqp.ErrClosed
	case s.cut:
		e.Err = "into a dead connection"
	case m == nil:
		e.Err = audit.UnknownTag
	default:
		e.Copy, e.ID, e.Accepted = m.name, m.id, true
		m.holder = nil
		delete(s.unsettled, tag)
		if what == audit.Requeue {
			m.redelivered = true
		} else {
			m.gone = true
			w.bury(m, what)
		}
	}
	w.note(e)
	return nil
}
