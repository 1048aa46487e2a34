package counter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

// Control is like Counter.Control. It fails only on invalid arguments.
func (m *Memory) Control(ctx context.Context, vhost, queue string, r Reader) (Control, error) {
	if err := checkAttempt(Attempt{Message: Message{Queue: queue, ID: "-"}, Token: r.Token}); err != nil {
		return Control{}, err
	}
	if err := ctx.Err(); err != nil {
		return Control{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l, now := m.ledger(vhost, queue), time.Now()
	l.report(r, now)
	c := Control{Paused: l.Paused, Note: l.Pause}
	for skip, until := range l.skips {
		if now.After(until) {
			delete(l.skips, skip)
			continue
		}
		if c.skips == nil {
			c.skips = map[string]bool{}
		}
		c.skips[skip] = true
	}
	return c, nil
}

func (l *ledger) report(r Reader, now time.Time) {
	if l.readers == nil {
		l.readers = map[string]ConsumerState{}
	}
	delete(l.readers, r.Token)
	if !r.Left {
		l.readers[r.Token] = ConsumerState{Consumer: printable.Cut(r.Consumer, rules.MaxStoredID),
			Seen: now.Truncate(time.Millisecond).UTC(), Paused: r.Stopped, Waiting: r.Waiting.kept()}
	}
}

// Pause is like Admin.Pause, without errors of the store. The pause does not expire.
func (m *Memory) Pause(_ context.Context, vhost, queue string, n Note) error {
	if err := checkNote(n); err != nil {
		return fmt.Errorf("counter: pause, queue %q: %w", queue, err)
	}
	return m.setPaused(vhost, queue, true, n)
}

// Resume is like Admin.Resume, without errors of the store.
func (m *Memory) Resume(_ context.Context, vhost, queue string, n Note) error {
	return m.setPaused(vhost, queue, false, n)
}

func (m *Memory) setPaused(vhost, queue string, paused bool, n Note) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledger(vhost, queue)
	if own := paused && l.Holding != nil && l.Holding.Only; paused == l.Paused && !own {
		return pauseError(queue, paused, notChanged(paused))
	}
	l.Paused, l.Pause = paused, noteAt(n, time.Now())
	if l.Holding != nil {
		l.Holding.Only = false
	}
	return nil
}

// Holding is like Admin.Holding. It never fails.
func (m *Memory) Holding(_ context.Context, vhost, queue string) (*Holding, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.ledger(vhost, queue); l.Paused && l.Holding != nil {
		return new(*l.Holding), nil
	}
	return nil, nil //nolint:nilnil // none is no error
}

// HoldQueue is like Counter.HoldQueue, without errors of the store.
func (m *Memory) HoldQueue(_ context.Context, vhost, queue string, n Note) error {
	return unlessPaused(m.setPaused(vhost, queue, true, n))
}

// Paused is like Admin.Paused. It never fails.
func (m *Memory) Paused(_ context.Context, vhost, queue string) (*Note, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.ledger(vhost, queue); l.Paused {
		return new(l.Pause), nil
	}
	return nil, nil //nolint:nilnil // none is no error
}

// Consumers is like Admin.Consumers. It never fails.
func (m *Memory) Consumers(_ context.Context, vhost, queue string) ([]ConsumerState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []ConsumerState
	l := m.ledger(vhost, queue)
	var paused *Note
	if l.Paused {
		paused = &l.Pause
	}
	for _, state := range l.readers {
		if time.Since(state.Seen) < time.Minute {
			out = append(out, state.since(paused))
		}
	}
	slices.SortFunc(out, byConsumer)
	return out, nil
}

// Skip is like Admin.Skip, without errors of the store.
func (m *Memory) Skip(ctx context.Context, msg Message, n Note) error {
	if err := checkSkip(msg, n); err != nil {
		return err
	}
	n = keptNote(n)
	reply, err := m.byOperator(ctx, msg, func(r *Record, q *rules.Queue, now time.Time) (Reply, time.Duration) {
		return rules.Skip(r, q, n, now)
	})
	if err = refusal("skip", msg, reply, err); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledger(msg.VHost, msg.Queue)
	if l.skips == nil {
		l.skips = map[string]time.Time{}
	}
	l.skips[member(msg.ID, msg.Generation)] = time.Now().Add(skipAnnounced)
	return nil
}

// Audit is like Admin.Audit. It fails only on invalid arguments.
func (m *Memory) Audit(_ context.Context, vhost, queue string, e AuditEntry) error {
	if err := e.validate(queue); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledger(vhost, queue)
	e = e.kept()
	e.Time = time.Now().Truncate(time.Millisecond).UTC()
	e.ID = fmt.Sprintf("%d-0", e.Time.UnixMilli())
	if n := len(l.audit); n > 0 && !entryIDBefore(l.audit[n-1].ID, e.ID) {
		last, _ := parseEntryID(l.audit[n-1].ID)
		e.ID = fmt.Sprintf("%d-%d", last[0], last[1]+1)
	}
	l.audit = append(l.audit, e)
	l.audit = l.audit[max(0, len(l.audit)-auditKept):]
	return nil
}

// AuditLog is like Admin.AuditLog. It fails only on invalid arguments.
func (m *Memory) AuditLog(_ context.Context, vhost, queue, before string, limit int) ([]AuditEntry, error) {
	if err := checkPage(queue, before, limit); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []AuditEntry
	for _, e := range slices.Backward(m.ledger(vhost, queue).audit) {
		if (before == "" || entryIDBefore(e.ID, before)) && len(out) < limit {
			out = append(out, e)
		}
	}
	return out, nil
}
