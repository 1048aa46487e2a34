package counter

import (
	"context"
	"fmt"
	"time"
)

// ledger is what a Memory keeps of a queue beside its records.
type ledger struct {
	override *Override
	buried   Tombstones

	undecodable *Undecodable
}

func (l *ledger) bury(now time.Time) {
	if l.buried.Count++; l.buried.Count == 1 {
		l.buried.Since = now
	}
}

// ledger returns that of a queue. The caller holds mu.
func (m *Memory) ledger(vhost, queue string) *ledger {
	key := Message{VHost: vhost, Queue: queue}
	if m.queues[key] == nil {
		m.queues[key] = &ledger{}
	}
	return m.queues[key]
}

// allowed is the limit that a step was given, and what it is before the message's grant is added.
type allowed struct{ configured, base int }

func (e *entry) given(limit int) allowed {
	if o := e.queue.override; o != nil && limit > 0 {
		return allowed{limit, o.Limit()}
	}
	return allowed{limit, limit}
}

func (e *entry) inForce(limit allowed) int {
	if limit.configured == 0 {
		return 0
	}
	return min(limit.base+e.Granted.Attempts, maxLimit)
}

func (e *entry) exhausted(limit allowed) bool { return e.Counted() >= e.inForce(limit) }

// Limit is like Counter.Limit; it never fails.
func (m *Memory) Limit(_ context.Context, vhost, queue string) (*Override, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.ledger(vhost, queue).override; o != nil {
		set := *o
		return &set, nil
	}
	return nil, nil //nolint:nilnil // none is no error, and no zero value of an override
}

// SetLimit is like Counter.SetLimit; it fails only on arguments that it refuses.
func (m *Memory) SetLimit(_ context.Context, vhost, queue string, o Override) error {
	if err := o.validate(); err != nil {
		return fmt.Errorf("counter: set limit, queue %q: %w", queue, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o.Note = o.at(time.Now())
	m.ledger(vhost, queue).override = &o
	return nil
}

// ClearLimit is like Counter.ClearLimit; it never fails.
func (m *Memory) ClearLimit(_ context.Context, vhost, queue string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledger(vhost, queue)
	was := l.override != nil
	l.override = nil
	return was, nil
}

// Grant is like Counter.Grant; it fails only on what that refuses.
func (m *Memory) Grant(ctx context.Context, msg Message, g Grant) error {
	if err := g.validate(); err != nil {
		return fmt.Errorf("counter: grant, queue %q: %w", msg.Queue, err)
	}
	answer, err := m.step(ctx, Attempt{Message: msg, Token: byOperator}, func(e *entry, exists bool, now time.Time) Reply {
		switch {
		case !exists:
			return e.answer(verdictNone, allowed{}, now)
		case e.State != StateLive:
			return e.answer(verdictOver, allowed{}, now)
		}
		e.Granted = Grant{Attempts: min(e.Granted.Attempts+g.Attempts, MaxGrant), Note: g.at(now)}
		e.bound(now)
		e.expires = now.Add(m.opts.TTL)
		return e.answer(verdictGranted, allowed{}, now)
	})
	if err != nil {
		return err
	}
	return refusal("grant", msg, answer.Verdict)
}

// Pardon is like Counter.Pardon; it fails only on what that refuses.
func (m *Memory) Reset(ctx context.Context, msg Message, n Note) error {
	if err := n.validate(); err != nil {
		return fmt.Errorf("counter: reset, queue %q: %w", msg.Queue, err)
	}
	answer, err := m.step(ctx, Attempt{Message: msg, Token: byOperator}, func(e *entry, exists bool, now time.Time) Reply {
		if !exists {
			return e.answer(verdictNone, allowed{}, now)
		}
		e.anew()
		e.bound(now)
		e.Reset, e.expires = n.at(now), now.Add(m.opts.TTL)
		return e.answer(verdictReset, allowed{}, now)
	})
	if err != nil {
		return err
	}
	return refusal("reset", msg, answer.Verdict)
}

// Buried is like Counter.Buried; it never fails.
func (m *Memory) Tombstones(_ context.Context, vhost, queue string) (Tombstones, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ledger(vhost, queue).buried, nil
}

// AddTaken is like Counter.AddTaken; it fails only on messages without an ID.
func (m *Memory) NoteRemoved(ctx context.Context, vhost, queue string, dead []Message) error {
	for _, d := range dead {
		of := Attempt{Message: Message{VHost: vhost, Queue: queue, ID: d.ID, Generation: d.Generation}, Token: byOperator}
		_, err := m.step(ctx, of, func(e *entry, _ bool, now time.Time) Reply {
			if e.State != StateDeadLetter || !e.Removed.IsZero() {
				return e.answer(verdictNone, allowed{}, now)
			}
			e.bound(now)
			if e.Removed = now; e.queue.buried.Count > 0 {
				e.queue.buried.Removed++
			}
			return e.answer(verdictRemoved, allowed{}, now)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// at is what is stored of a note that is given at a time.
func (n Note) at(now time.Time) Note {
	n = n.kept()
	n.At = now.Truncate(time.Millisecond).UTC()
	return n
}
