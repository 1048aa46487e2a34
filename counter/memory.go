package counter

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Bounds of what a record remembers, as scripts/record.lua has them.
const (
	endedKept  = 16        // uncharged attempts
	tokensKept = 14 * 1024 // bytes of all tokens, each with three of its kind
)

// Memory takes the same steps as a Counter, in this process alone: for unit tests of handlers and of what is built on
// package consumer, without a server. It is also the model that the scripts are held against. It is safe for use by
// many goroutines, shares nothing with other processes, and forgets everything with its own.
type Memory struct {
	opts   Options
	refuse error

	mu      sync.Mutex
	records map[Message]*entry
	queues  map[Message]*ledger // by VHost and Queue alone
}

// entry is a record and the tokens in the order in which they came.
type entry struct {
	Record
	order   []string
	expires time.Time
	queue   *ledger
}

// NewMemory returns an empty Memory. Of the options only TTL matters; nil means the defaults.
func NewMemory(opts *Options) *Memory {
	o := opts.withDefaults()
	return &Memory{opts: o, refuse: o.validate(), records: map[Message]*entry{}, queues: map[Message]*ledger{}}
}

// TTL is like Counter.TTL.
func (m *Memory) TTL() time.Duration { return m.opts.TTL }

// Start is like Counter.Start; it fails only on arguments that it refuses.
func (m *Memory) Start(ctx context.Context, a Attempt, mode Mode, limit int) (Reply, error) {
	if limit < 1 {
		return Reply{}, fmt.Errorf("counter: start: the limit is %d: it must be 1 at least", limit)
	}
	return m.step(ctx, a, func(e *entry, exists bool, now time.Time) Reply {
		answer, write := e.start(a, mode, e.given(min(limit, maxLimit)), now)
		if exists && write || answer.Verdict == VerdictRun && write {
			m.save(e, a, now, m.opts.TTL)
		}
		return answer
	})
}

// Fail is like Counter.Fail; it fails only on arguments that it refuses.
func (m *Memory) Fail(ctx context.Context, a Attempt, f Failure) (Reply, error) {
	if err := f.validate(); err != nil {
		return Reply{}, err
	}
	return m.step(ctx, a, func(e *entry, _ bool, now time.Time) Reply {
		answer, write := e.fail(a, f, e.given(min(max(f.Limit, 0), maxLimit)), now)
		if write {
			m.save(e, a, now, m.opts.TTL)
		}
		return answer
	})
}

// End is like Counter.End; it fails only on arguments that it refuses.
func (m *Memory) End(ctx context.Context, a Attempt, succeeded bool) error {
	_, err := m.step(ctx, a, func(e *entry, exists bool, now time.Time) Reply {
		if e.Tokens[a.Token] == KindNotCounted {
			return e.answer(verdictEnded, allowed{}, now)
		}
		e.end(a.Token, succeeded, now)
		keep := m.opts.TTL
		if e.State == StateDone || !exists {
			keep = keepDone
		}
		m.save(e, a, now, keep)
		return e.answer(verdictEnded, allowed{}, now)
	})
	return err
}

// Get returns the records of all lives of an id in a queue, newest first.
func (m *Memory) Get(_ context.Context, vhost, queue, id string) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var out []Record
	for key, e := range m.records {
		if key.VHost == vhost && key.Queue == queue && key.ID == id && now.Before(e.expires) {
			r := e.Record
			r.Tokens = map[string]Kind{}
			for token, kind := range e.Tokens {
				r.Tokens[token] = kind
			}
			r.TTL = e.expires.Sub(now)
			out = append(out, r)
		}
	}
	slices.SortFunc(out, newestFirst)
	return out, nil
}

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

// start is scripts/start.lua. It reports whether the record is to be written.
func (e *entry) start(a Attempt, asked Mode, limit allowed, now time.Time) (Reply, bool) {
	token, earlier := a.Token, e.earlier(a, now)
	if e.State == StateDeadLetter && now.Before(e.Binds) && !earlier {
		e.Binds = now.Add(tombstone) // its dead-lettering may be held again
		return e.answer(VerdictExhausted, limit, now), true
	}
	if e.OpenToken == token || e.Tokens[token] != 0 {
		return e.answer(VerdictRun, limit, now), false
	}
	if e.State == StateDeadLetter || e.State == StateDone && earlier {
		e.anew()
	}
	if e.State == StateDone {
		e.State, e.Suspect = StateLive, false // Binds keeps that it was handled
		e.unmark()
	}
	if asked.isolated() && e.OpenToken != "" && e.OpenMode == ModeIsolated {
		e.Crashes++
		e.remember(e.OpenToken, KindCrashed)
		e.charged(CauseCrashed, "the process died while it ran this message isolated", now)
		e.Binds = time.Time{}
		e.unmark()
	}
	e.Limit = limit.configured
	verdict := e.permit(a, asked, limit, now)
	return e.answer(verdict, limit, now), true
}

func (e *entry) permit(a Attempt, asked Mode, limit allowed, now time.Time) Verdict {
	switch {
	case e.exhausted(limit) && e.Binds.IsZero():
		e.bury(limit, now)
		return VerdictExhausted
	case e.Left(now) > 0:
		return VerdictWait
	case asked == ModeShared && (e.Suspect || e.OpenToken != ""):
		e.Suspect = true
		return VerdictSuspect
	}
	e.Starts++
	e.Fence = max(e.Fence+1, a.Floor+1, time.Now().UnixMicro())
	if asked != ModeUntracked {
		if e.OpenToken != "" {
			e.Suspect = true
		}
		e.OpenToken, e.OpenMode, e.OpenSince = a.Token, ModeShared, now
		if asked == ModeIsolated {
			e.OpenMode = ModeIsolated
		}
	}
	return VerdictRun
}

// fail is scripts/fail.lua. It reports whether the record is to be written.
func (e *entry) fail(a Attempt, f Failure, limit allowed, now time.Time) (Reply, bool) {
	token := a.Token
	known := e.Tokens[token]
	if known == 0 && e.State != StateLive && e.earlier(a, now) {
		e.anew()
	}
	fresh := known == 0 && e.State != StateDeadLetter
	changes := fresh || known == KindCrashed || e.OpenToken == token
	if fresh {
		e.Failures++
	} else if known == KindCrashed {
		e.Crashes, e.Failures = e.Crashes-1, e.Failures+1
	}
	if fresh || known == KindCrashed {
		if e.State != StateDeadLetter {
			e.State, e.Binds = StateLive, time.Time{}
		}
		e.remember(token, KindFailed)
		e.charged(f.cause(), cut(f.Reason, MaxReason), now)
		e.Wait = time.Duration(ceilMillis(f.Wait)) * time.Millisecond
		e.Due = now.Add(e.Wait)
	}
	if known != KindNotCounted && e.State == StateLive && e.exhausted(limit) {
		e.bury(limit, now)
		changes = true
	}
	if e.OpenToken == token {
		e.unmark()
	}
	if changes && limit.configured > 0 && e.State != StateDeadLetter {
		e.Limit = limit.configured
	}
	if e.State == StateDeadLetter || e.exhausted(limit) {
		return e.answer(VerdictExhausted, limit, now), changes
	}
	return e.answer(VerdictRequeue, limit, now), changes
}

// end is scripts/end.lua, once it is known that there is something to do.
func (e *entry) end(token string, succeeded bool, now time.Time) {
	if e.Tokens[token] == KindCrashed {
		e.Crashes--
	}
	if e.Tokens[token] != KindFailed {
		e.remember(token, KindNotCounted)
	}
	if e.OpenToken == token {
		e.unmark()
	}
	if succeeded {
		e.State, e.Binds = StateDone, now.Add(tombstone)
	}
}

func (e *entry) answer(v Verdict, limit allowed, now time.Time) Reply {
	reply := Reply{Verdict: v, Failures: e.Failures, Crashes: e.Crashes, Limit: e.inForce(limit), Fence: e.Fence, Wait: e.Left(now)}
	if v == VerdictExhausted {
		reply.Cause, reply.Reason = e.Cause, e.Reason
	}
	return reply
}

// earlier reports whether the tombstone or the success is of an earlier use of the id.
func (e *entry) earlier(a Attempt, now time.Time) bool {
	age := time.Duration(a.age()) * time.Millisecond
	return a.First && !e.Binds.Add(-tombstone).After(now.Add(-age))
}

func (e *entry) anew() {
	e.Failures, e.Crashes, e.Due, e.Wait, e.Cause, e.Reason = 0, 0, time.Time{}, 0, "", ""
	e.Suspect, e.State = false, StateLive
	e.unmark()
	e.FirstTime, e.LastTime, e.Binds = time.Time{}, time.Time{}, time.Time{}
	e.Granted, e.Reset, e.Removed = Grant{}, Note{}, time.Time{}
	for token := range e.Tokens {
		e.Tokens[token] = KindNotCounted
	}
}

func (e *entry) bury(limit allowed, now time.Time) {
	e.State, e.Binds, e.Removed = StateDeadLetter, now.Add(tombstone), time.Time{}
	switch o := e.queue.override; {
	case limit.configured > 0:
		e.Limit = limit.base
	case o != nil:
		e.Limit = o.Limit()
	}
	e.queue.bury(now)
}

func (e *entry) charged(cause Cause, why string, now time.Time) {
	if e.FirstTime.IsZero() {
		e.FirstTime = now
	}
	e.LastTime, e.Cause, e.Reason = now, cause, why
	if now.Before(e.FirstTime) { // the clock was set back
		e.LastTime = e.FirstTime
	}
}

func (e *entry) unmark() { e.OpenToken, e.OpenMode = "", ModeShared }

func (e *entry) remember(token string, as Kind) {
	if e.Tokens[token] == 0 {
		e.order = append(e.order, token)
	}
	e.Tokens[token] = as
}

// bound forgets the oldest uncharged attempts beyond the number worth remembering, and the oldest of all beyond the bytes.
// If the clock was set back it moves Due, so that the wait does not grow.
func (e *entry) bound(now time.Time) {
	if due := now.Add(e.Wait); e.Due.After(due) {
		e.Due = due
	}
	surplus := -endedKept
	for _, kind := range e.Tokens {
		if kind == KindNotCounted {
			surplus++
		}
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
