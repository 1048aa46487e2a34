package counter

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Bounds of a record, as in scripts/record.lua.
const (
	endedKept  = 16        // attempts that are not counted
	tokensKept = 14 * 1024 // bytes of all tokens, with three for the kind of each
)

// Memory takes the same steps as a Counter, and has the methods of its Admin, in this process alone. It is for unit tests of
// handlers and of programs that use package consumer, without a server. It is also the model that the scripts are tested
// against. It is safe for concurrent use, and shares nothing with other processes.
type Memory struct {
	opts   Options
	refuse error

	mu      sync.Mutex
	records map[Message]*entry
	queues  map[Message]*ledger // by VHost and Queue alone
}

// entry is a record, and its tokens in their order.
type entry struct {
	Record
	order   []string
	noted   []noted
	firsts  bool // the first attempt at a delivery that is not redelivered has failed
	expires time.Time
	queue   *ledger
}

// NewMemory returns an empty Memory. Of the options it uses only TTL; nil means the defaults.
func NewMemory(opts *Options) *Memory {
	o := opts.withDefaults()
	return &Memory{opts: o, refuse: o.validate(), records: map[Message]*entry{}, queues: map[Message]*ledger{}}
}

// TTL is like Counter.TTL.
func (m *Memory) TTL() time.Duration { return m.opts.TTL }

// Start is like Counter.Start. It fails only on invalid arguments.
func (m *Memory) Start(ctx context.Context, a Attempt, mode Mode, limit int) (Reply, error) {
	if err := checkLimit(limit); err != nil {
		return Reply{}, err
	}
	return m.step(ctx, a, func(e *entry, exists bool, now time.Time) Reply {
		reply, write := e.start(a, mode, e.given(min(limit, maxLimit)), now)
		if e.OpenToken != "" && e.OpenToken != a.Token {
			a.Holder = e.Holder // stays that of the open attempt
		}
		if write && (exists || reply.Verdict == VerdictRun) {
			m.save(e, a, now, m.keep(reply.Verdict))
		}
		return reply
	})
}

// Begun is like Counter.Begun. It fails only on invalid arguments.
func (m *Memory) Begun(ctx context.Context, a Attempt) (Reply, error) {
	return m.step(ctx, a, func(e *entry, _ bool, now time.Time) Reply {
		verdict, write := e.begun(a)
		if write {
			m.save(e, a, now, m.opts.TTL)
		}
		return e.reply(verdict, allowed{}, now)
	})
}

// Fail is like Counter.Fail. It fails only on invalid arguments.
func (m *Memory) Fail(ctx context.Context, a Attempt, f Failure) (Reply, error) {
	if err := f.validate(); err != nil {
		return Reply{}, err
	}
	return m.step(ctx, a, func(e *entry, _ bool, now time.Time) Reply {
		reply, write := e.fail(a, f, e.given(min(max(f.Limit, 0), maxLimit)).atMost(f.AtMost, e.Tokens[a.Token] == KindFailed && e.State == StateLive), now)
		if write {
			m.save(e, a, now, m.keep(reply.Verdict))
		}
		return reply
	})
}

// End is like Counter.End. It fails only on invalid arguments.
func (m *Memory) End(ctx context.Context, a Attempt, succeeded bool) error {
	_, err := m.step(ctx, a, func(e *entry, exists bool, now time.Time) Reply {
		if e.Tokens[a.Token] != KindNotCounted {
			e.end(a, succeeded, now)
			keep := m.opts.TTL
			if e.Move.Top == 0 && (e.State == StateDone || !exists) {
				keep = keepDone
			}
			m.save(e, a, now, keep)
		}
		return e.reply(verdictEnded, allowed{}, now)
	})
	return err
}

// step checks the arguments of a step and takes it on the message's record, a new one if there is none.
func (m *Memory) step(ctx context.Context, a Attempt, take func(e *entry, exists bool, now time.Time) Reply) (Reply, error) {
	if m.refuse != nil {
		return Reply{}, m.refuse
	}
	if err := a.validate(); err != nil {
		return Reply{}, err
	}
	if err := ctx.Err(); err != nil {
		return Reply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().Truncate(time.Millisecond).UTC()
	e, exists := m.records[a.Message]
	if exists && !now.Before(e.expires) {
		delete(m.records, a.Message)
		exists = false
	}
	if !exists {
		e = &entry{Record: Record{Message: a.Message, Tokens: map[string]Kind{}}, queue: m.ledger(a.VHost, a.Queue)}
	}
	return take(e, exists, now), nil
}

func (m *Memory) save(e *entry, a Attempt, now time.Time, keep time.Duration) {
	e.bound(now)
	e.Holder, e.expires = a.Holder, now.Add(keep)
	m.records[a.Message] = e
}

func (e *entry) reply(v Verdict, limit allowed, now time.Time) Reply {
	r := Reply{Verdict: v, Failures: e.Failures, Crashes: e.Crashes, Limit: e.inForce(limit), Fence: e.Fence, Wait: e.Left(now)}
	if v == VerdictHeld || v == VerdictExhausted {
		r.Cause, r.Reason = e.Cause, e.Reason
	}
	if v == VerdictHeld && e.queue.holds(e.Message) {
		r.Cause = e.queue.holding.Cause
	}
	return r
}

// earlier reports whether the tombstone or the success is of an earlier use of the id.
func (e *entry) earlier(a Attempt, now time.Time) bool {
	age := time.Duration(a.age()) * time.Millisecond
	return a.First && !e.Binds.Add(-tombstoneBinds).After(now.Add(-age))
}

// clear empties the record, except for its holder, fence, starts, limit and known tokens, which count no more.
func (e *entry) clear() {
	for token := range e.Tokens {
		e.Tokens[token] = KindNotCounted
	}
	e.noted, e.firsts = nil, false
	e.Record = Record{
		Move: e.Move, Message: e.Message, Tokens: e.Tokens, OpenSince: e.OpenSince, Starts: e.Starts, Fence: e.Fence, Limit: e.Limit, Holder: e.Holder,
	}
}

// exhaust writes the tombstone.
func (e *entry) exhaust(limit allowed, now time.Time) {
	if e.State == StateSkip {
		e.counted(CauseSkipped, e.Skipped.Why, now)
	}
	e.State, e.Binds, e.Removed = StateDeadLetter, now.Add(tombstoneBinds), time.Time{}
	if limit.configured > 0 {
		e.Limit = limit.base
	} else if set := e.queue.override.Limit(); set > 0 {
		e.Limit = set
	}
	if e.queue.tombstones.Count++; e.queue.tombstones.Count == 1 {
		e.queue.tombstones.Since = now
	}
}

// counted notes the cause and the time of an attempt that was counted, or of a skip.
func (e *entry) counted(cause Cause, reason string, now time.Time) {
	if e.FirstTime.IsZero() {
		e.FirstTime = now
	}
	e.LastTime, e.Cause, e.Reason = now, cause, reason
	if now.Before(e.FirstTime) { // the clock was set back
		e.LastTime = e.FirstTime
	}
}

// close closes the open attempt.
func (e *entry) close() { e.OpenToken, e.OpenMode = "", ModeShared }

func (e *entry) remember(token string, as Kind) {
	if e.Tokens[token] == 0 {
		e.order = append(e.order, token)
	}
	e.Tokens[token] = as
}

// bound forgets the oldest attempts beyond the bounds of a record. If the clock was set back it moves Due, so that the wait
// does not grow.
func (e *entry) bound(now time.Time) {
	if due := now.Add(e.Wait); e.Due.After(due) {
		e.Due = due
	}
	surplus := -endedKept
	for kind := range maps.Values(e.Tokens) {
		surplus += flag(kind == KindNotCounted)
	}
	e.order = slices.DeleteFunc(e.order, func(token string) bool {
		if surplus <= 0 || e.Tokens[token] != KindNotCounted {
			return false
		}
		surplus--
		delete(e.Tokens, token)
		return true
	})
	size := 1
	for _, token := range e.order {
		size += len(token) + 3
	}
	for ; size > tokensKept; e.order = e.order[1:] {
		size -= len(e.order[0]) + 3
		delete(e.Tokens, e.order[0])
	}
}
