package counter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

// ledger is the state of a queue in a Memory, without its records.
type ledger struct {
	rules.Queue
	undecodable string // the note of NoteUndecodable
	undecodedAt time.Time
	readers     map[string]ConsumerState
	skips       map[string]time.Time
	audit       []AuditEntry // oldest first
	laneOwner   string
	lanes       map[string]*laneBook // by the hash of their names
}

// ledger returns that of a queue. The caller holds mu.
func (m *Memory) ledger(vhost, queue string) *ledger {
	key := Message{VHost: vhost, Queue: queue}
	if m.queues[key] == nil {
		m.queues[key] = &ledger{Queue: rules.Queue{TTL: m.opts.TTL}}
	}
	return m.queues[key]
}

// Get is like Admin.Get. It never fails.
func (m *Memory) Get(_ context.Context, vhost, queue, id string) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var out []Record
	for key := range m.records {
		if key.VHost == vhost && key.Queue == queue && key.ID == id {
			if r := m.record(key, now); r.TTL > 0 {
				out = append(out, r)
			}
		}
	}
	slices.SortFunc(out, newestFirst)
	return out, nil
}

// Limit is like Admin.Limit. It never fails.
func (m *Memory) Limit(_ context.Context, vhost, queue string) (*Override, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.ledger(vhost, queue).Override; o != nil {
		return &Override{MaxRetries: copied(o.MaxRetries), MaxAge: copied(o.MaxAge), Note: o.Note}, nil
	}
	return nil, nil //nolint:nilnil // none is no error, and no zero value of an override
}

// SetLimit is like Admin.SetLimit. It fails only on invalid arguments.
func (m *Memory) SetLimit(_ context.Context, vhost, queue string, o Override) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, err := m.ledger(vhost, queue), checkOverride(o)
	if err == nil && o.MaxRetries == nil && o.MaxAge == nil && l.Override == nil {
		err = errNoOverride
	}
	if err != nil {
		return fmt.Errorf("counter: set limit, queue %q: %w", queue, err)
	}
	if before := l.Override; before != nil {
		o.MaxRetries, o.MaxAge = cmp.Or(o.MaxRetries, before.MaxRetries), cmp.Or(o.MaxAge, before.MaxAge)
	}
	l.Override = &Override{MaxRetries: copied(o.MaxRetries), MaxAge: copied(o.MaxAge), Note: noteAt(o.Note, time.Now())}
	return nil
}

// copied returns a copy of what p points to, if it does.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// ClearLimit is like Admin.ClearLimit. It never fails.
func (m *Memory) ClearLimit(_ context.Context, vhost, queue string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledger(vhost, queue)
	was := l.Override != nil
	l.Override = nil
	return was, nil
}

// LimitMessage is like Admin.LimitMessage, without errors of the store.
func (m *Memory) LimitMessage(ctx context.Context, msg Message, attempts int, n Note) error {
	if err := checkOwnLimit(msg, attempts, n); err != nil {
		return err
	}
	n = keptNote(n)
	reply, err := m.byOperator(ctx, msg, func(r *Record, q *rules.Queue, now time.Time) (Reply, time.Duration) {
		return rules.Limit(r, q, attempts, n, now)
	})
	return refusal("limit message", msg, reply, err)
}

// Reset is like Admin.Reset, without errors of the store.
func (m *Memory) Reset(ctx context.Context, msg Message, n Note) error {
	if err := checkReset(msg, n); err != nil {
		return err
	}
	n = keptNote(n)
	reply, err := m.byOperator(ctx, msg, func(r *Record, q *rules.Queue, now time.Time) (Reply, time.Duration) {
		return rules.Reset(r, q, n, now)
	})
	return refusal("reset", msg, reply, err)
}

// byOperator takes a step that belongs to no attempt.
func (m *Memory) byOperator(ctx context.Context, msg Message, take func(*Record, *rules.Queue, time.Time) (Reply,
	time.Duration)) (Reply, error) {
	return m.step(ctx, Attempt{Message: msg, Token: byOperator}, func(r *Record, q *rules.Queue, _ Attempt,
		now time.Time) (Reply, time.Duration) {
		return take(r, q, now)
	})
}

// Tombstones is like Admin.Tombstones. It never fails.
func (m *Memory) Tombstones(_ context.Context, vhost, queue string) (Tombstones, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	dead := int64(0)
	for key, e := range m.records {
		if key.VHost == vhost && key.Queue == queue && e.State == StateDeadLetter && e.Removed.IsZero() &&
			now.Before(e.expires) {
			dead++
		}
	}
	return withExpired(m.ledger(vhost, queue).Tombstones, dead), nil
}

// NoteRemoved is like Admin.NoteRemoved. It fails only on messages without an ID.
func (m *Memory) NoteRemoved(ctx context.Context, vhost, queue string, messages []Message) error {
	for _, msg := range messages {
		msg.VHost, msg.Queue = vhost, queue
		if _, err := m.byOperator(ctx, msg, rules.Remove); err != nil {
			return err
		}
	}
	return nil
}

// NoteUndecodable is like Counter.NoteUndecodable. It never fails.
func (m *Memory) NoteUndecodable(_ context.Context, vhost, queue, why string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledger(vhost, queue)
	l.undecodable, l.undecodedAt = printable.Cut(why, MaxReason), time.Now()
	return nil
}

// Undecodable is like Admin.Undecodable. It never fails.
func (m *Memory) Undecodable(_ context.Context, vhost, queue string) (why string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.ledger(vhost, queue); time.Since(l.undecodedAt) < undecodableTTL {
		why = l.undecodable
	}
	return why, nil
}

// noteAt is a given note as the store keeps it.
func noteAt(n Note, now time.Time) Note {
	n = keptNote(n)
	n.At = now.Truncate(time.Millisecond).UTC()
	return n
}
