package counter

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// hold has a message hold its queue, as scripts/save.lua does.
func (e *entry) hold(cause Cause, holder string, now time.Time) {
	q := e.queue
	is := q.holds(e.Message)
	if !is {
		q.holding = &Holding{Message: e.Message, Since: now, Only: q.holding != nil && q.holding.Only}
	}
	q.holding.Cause = cause
	if !q.paused || q.holding.Only && !is {
		q.paused, q.holding.Only = true, true
		q.pause = Note{By: holder, At: now, Why: fmt.Sprintf("a message is exhausted after %s (%s): grant it attempts or skip it", printable.Plural(e.Counted(), "failed attempt"), cause)}
	}
}

func (l *ledger) holds(m Message) bool { return l.holding != nil && l.holding.Message == m }

// free ends what hold began, if the message holds its queue.
func (l *ledger) free(m Message, n Note) {
	if !l.holds(m) {
		return
	}
	if l.holding.Only {
		l.paused, l.pause = false, n
	}
	l.holding = nil
}

// exhaustedBy is the cause for which an exhausted message holds its queue.
func (e *entry) exhaustedBy(age bool) Cause {
	if age {
		return CauseTooOld
	}
	return e.Cause
}

// Holding is like Admin.Holding. It never fails.
func (m *Memory) Holding(_ context.Context, vhost, queue string) (*Holding, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.ledger(vhost, queue); l.paused && l.holding != nil {
		return new(*l.holding), nil
	}
	return nil, nil //nolint:nilnil // none is no error
}

// HoldQueue is like Counter.HoldQueue, without errors of the store.
func (m *Memory) HoldQueue(_ context.Context, vhost, queue string, n Note) error {
	return unlessPaused(m.setPaused(vhost, queue, true, n))
}

// keep is how long a record is kept after a step.
func (m *Memory) keep(v Verdict) time.Duration {
	if v == VerdictHeld {
		return max(m.opts.TTL, pauseTTL)
	}
	return m.opts.TTL
}
