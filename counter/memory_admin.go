package counter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// ledger is what a Memory keeps of a queue beside its records.
type ledger struct {
	override    *Override
	tombstones  Tombstones
	undecodable *Undecodable
	paused      bool
	pause       Note     // of the pause, or of the last resume
	holding     *Holding // the last message that held the queue, until that is decided
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
		m.queues[key] = &ledger{}
	}
	return m.queues[key]
}

// allowed is the limit that a step was given, and what it is before the message's grant is added.
type allowed struct{ configured, base int }

// atMost is the limit for a failure with AtMost n. A repetition does not judge what was counted since.
func (a allowed) atMost(n int, repeated bool) allowed {
	if n > 0 && n < a.base && !repeated {
		a.base = n
	}
	return a
}

func (e *entry) given(limit int) allowed {
	if set := e.queue.override.Limit(); set > 0 && limit > 0 {
		return allowed{limit, set}
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

// tooOld reports whether the last counted attempt was later than the MaxAge in force after the first; given is that of the step.
func (e *entry) tooOld(given time.Duration) bool {
	oldest := time.Duration(ceilMillis(given)) * time.Millisecond
	if o := e.queue.override; o != nil && o.MaxAge != nil {
		oldest = *o.MaxAge
	}
	return e.Record.tooOld(oldest)
}

// Get is like Admin.Get. It never fails.
func (m *Memory) Get(_ context.Context, vhost, queue, id string) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var out []Record
	for key, e := range m.records {
		if key.VHost == vhost && key.Queue == queue && key.ID == id && now.Before(e.expires) {
			r := e.Record
			r.Tokens, r.History, r.TTL = maps.Clone(e.Tokens), e.history(), e.expires.Sub(now)
			out = append(out, r)
		}
	}
	slices.SortFunc(out, newestFirst)
	return out, nil
}

// Limit is like Admin.Limit. It never fails.
func (m *Memory) Limit(_ context.Context, vhost, queue string) (*Override, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.ledger(vhost, queue).override; o != nil {
		return &Override{MaxRetries: copied(o.MaxRetries), MaxAge: copied(o.MaxAge), Note: o.Note}, nil
	}
	return nil, nil //nolint:nilnil // none is no error, and no zero value of an override
}

// SetLimit is like Admin.SetLimit. It fails only on invalid arguments.
func (m *Memory) SetLimit(_ context.Context, vhost, queue string, o Override) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, err := m.ledger(vhost, queue), o.validate()
	if err == nil && o.MaxRetries == nil && o.MaxAge == nil && l.override == nil {
		err = errNoOverride
	}
	if err != nil {
		return fmt.Errorf("counter: set limit, queue %q: %w", queue, err)
	}
	if before := l.override; before != nil {
		o.MaxRetries, o.MaxAge = cmp.Or(o.MaxRetries, before.MaxRetries), cmp.Or(o.MaxAge, before.MaxAge)
	}
	l.override = &Override{MaxRetries: copied(o.MaxRetries), MaxAge: copied(o.MaxAge), Note: o.at(time.Now())}
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
	was := l.override != nil
	l.override = nil
	return was, nil
}

// Grant is like Admin.Grant, without errors of the store.
func (m *Memory) Grant(ctx context.Context, msg Message, g Grant) error {
	if err := g.validate(msg); err != nil {
		return err
	}
	reply, err := m.byOperator(ctx, msg, func(e *entry, now time.Time) Verdict {
		if e.State != StateLive {
			return verdictOver
		}
		e.Granted = Grant{Attempts: min(e.Granted.Attempts+g.Attempts, MaxGrant), Note: g.at(now)}
		e.queue.free(msg, g.at(now))
		return verdictGranted
	})
	return refusal("grant", msg, reply, err)
}

// Reset is like Admin.Reset, without errors of the store.
func (m *Memory) Reset(ctx context.Context, msg Message, n Note) error {
	if err := n.validateReset(msg); err != nil {
		return err
	}
	reply, err := m.byOperator(ctx, msg, func(e *entry, now time.Time) Verdict {
		if e.State == StateDeadLetter && e.Removed.IsZero() && e.queue.tombstones.Count > 0 {
			e.queue.tombstones.Count--
		}
		e.clear()
		e.queue.free(msg, n.at(now))
		e.Record.Reset = n.at(now) //nolint:staticcheck // Reset alone would read as the method of Memory
		return verdictReset
	})
	return refusal("reset", msg, reply, err)
}

// byOperator changes an existing record and renews its TTL, unless the verdict is verdictOver.
func (m *Memory) byOperator(ctx context.Context, msg Message, change func(e *entry, now time.Time) Verdict) (Reply, error) {
	return m.step(ctx, Attempt{Message: msg, Token: byOperator}, func(e *entry, exists bool, now time.Time) Reply {
		verdict := verdictNone
		if exists {
			verdict = change(e, now)
		}
		if verdict != verdictNone && verdict != verdictOver {
			e.bound(now)
			e.expires = now.Add(m.opts.TTL)
		}
		return e.reply(verdict, allowed{}, now)
	})
}

// Tombstones is like Admin.Tombstones. It never fails.
func (m *Memory) Tombstones(_ context.Context, vhost, queue string) (Tombstones, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tombstones(vhost, queue), nil
}

// tombstones counts those of a queue. The caller holds mu.
func (m *Memory) tombstones(vhost, queue string) Tombstones {
	now := time.Now()
	dead := int64(0)
	for key, e := range m.records {
		if key.VHost == vhost && key.Queue == queue && e.State == StateDeadLetter && e.Removed.IsZero() && now.Before(e.expires) {
			dead++
		}
	}
	return m.ledger(vhost, queue).tombstones.expired(dead)
}

// NoteRemoved is like Admin.NoteRemoved. It fails only on messages without an ID.
func (m *Memory) NoteRemoved(ctx context.Context, vhost, queue string, messages []Message) error {
	for _, msg := range messages {
		_, err := m.step(ctx, removedAttempt(vhost, queue, msg), func(e *entry, _ bool, now time.Time) Reply {
			if e.State != StateDeadLetter || !e.Removed.IsZero() {
				return e.reply(verdictNone, allowed{}, now)
			}
			e.bound(now)
			if e.Removed = now; e.queue.tombstones.Count > 0 {
				e.queue.tombstones.Removed++
			}
			return e.reply(verdictRemoved, allowed{}, now)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// NoteUndecodable is like Counter.NoteUndecodable. It never fails.
func (m *Memory) NoteUndecodable(_ context.Context, vhost, queue string, u Undecodable) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledger(vhost, queue)
	now := time.Now()
	u = u.kept()
	u.Sessions, u.Since, u.At = 1, now, now
	if before := l.undecodable; before != nil && now.Sub(before.At) < undecodableTTL {
		u.Sessions, u.Since = before.Sessions+1, before.Since
		if u.After == "" {
			u.After = before.After
		}
	}
	l.undecodable = &u
	return nil
}

// Undecodable is like Admin.Undecodable. It never fails.
func (m *Memory) Undecodable(_ context.Context, vhost, queue string) (*Undecodable, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.ledger(vhost, queue).undecodable
	if u == nil || time.Since(u.At) >= undecodableTTL {
		return nil, nil //nolint:nilnil // none is no error
	}
	noted := *u
	return &noted, nil
}

// at is a given note as the store keeps it.
func (n Note) at(now time.Time) Note {
	n = n.kept()
	n.At = now.Truncate(time.Millisecond).UTC()
	return n
}
