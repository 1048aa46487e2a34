package counter

import (
	"context"
	"sync"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

// Memory takes the same steps as a Counter, and has the methods of its Admin, in this process alone. It is for unit
// tests of handlers and of programs that use package consumer, without a server. It is also the model that the
// scripts are tested against. It is safe for concurrent use, and shares nothing with other processes.
type Memory struct {
	opts   Options
	refuse error

	mu      sync.Mutex
	records map[Message]entry
	queues  map[Message]*ledger // by VHost and Queue alone
}

// entry is a record, until it expires.
type entry struct {
	Record
	expires time.Time
}

// NewMemory returns an empty Memory. Of the options it uses only TTL; nil means the defaults.
func NewMemory(opts *Options) *Memory {
	o := opts.withDefaults()
	return &Memory{opts: o, refuse: o.validate(), records: map[Message]entry{}, queues: map[Message]*ledger{}}
}

// TTL is like Counter.TTL.
func (m *Memory) TTL() time.Duration { return m.opts.TTL }

// Start is like Counter.Start. It fails only on invalid arguments.
func (m *Memory) Start(ctx context.Context, a Attempt, mode Mode, limit int) (Reply, error) {
	if err := checkLimit(limit); err != nil {
		return Reply{}, err
	}
	return m.step(ctx, a, func(r *Record, q *rules.Queue, a Attempt, now time.Time) (Reply, time.Duration) {
		return rules.Start(r, q, a, mode, limit, now)
	})
}

// Begun is like Counter.Begun. It fails only on invalid arguments.
func (m *Memory) Begun(ctx context.Context, a Attempt) (Reply, error) {
	return m.step(ctx, a, rules.Begun)
}

// Fail is like Counter.Fail. It fails only on invalid arguments.
func (m *Memory) Fail(ctx context.Context, a Attempt, f Failure) (Reply, error) {
	if err := checkFailure(f); err != nil {
		return Reply{}, err
	}
	return m.step(ctx, a, func(r *Record, q *rules.Queue, a Attempt, now time.Time) (Reply, time.Duration) {
		return rules.Fail(r, q, a, f, now)
	})
}

// End is like Counter.End. It fails only on invalid arguments.
func (m *Memory) End(ctx context.Context, a Attempt, succeeded bool) error {
	_, err := m.step(ctx, a, func(r *Record, q *rules.Queue, a Attempt, now time.Time) (Reply, time.Duration) {
		return rules.End(r, q, a, succeeded, now)
	})
	return err
}

// Moved is like Counter.Moved. It fails only on invalid arguments.
func (m *Memory) Moved(ctx context.Context, a Attempt, copyNumber int64) error {
	_, err := m.step(ctx, a, func(r *Record, q *rules.Queue, _ Attempt, now time.Time) (Reply, time.Duration) {
		return rules.Moved(r, q, copyNumber, now)
	})
	return err
}

// step checks the arguments of a step and takes it on the message's record, a new one if there is none.
func (m *Memory) step(ctx context.Context, a Attempt, take func(*Record, *rules.Queue, Attempt, time.Time) (Reply,
	time.Duration)) (Reply, error) {
	if m.refuse != nil {
		return Reply{}, m.refuse
	}
	if err := checkAttempt(a); err != nil {
		return Reply{}, err
	}
	if err := ctx.Err(); err != nil {
		return Reply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().UTC()
	a.Consumer = printable.Cut(a.Consumer, rules.MaxStoredID)
	a.Received = now.Add(-time.Duration(ageOf(a)) * time.Millisecond)
	r := m.record(a.Message, now)
	reply, keep := take(&r, &m.ledger(a.VHost, a.Queue).Queue, a, now)
	if keep > 0 {
		r.TTL = 0
		m.records[a.Message] = entry{r, now.Truncate(time.Millisecond).Add(keep)}
	}
	return reply, nil
}

// record returns a copy of a message's record; one without TTL if it has none.
func (m *Memory) record(of Message, now time.Time) Record {
	e, exists := m.records[of]
	if !exists || !now.Before(e.expires) {
		return Record{Message: of}
	}
	r := e.Clone()
	r.TTL = e.expires.Sub(now)
	return r
}
