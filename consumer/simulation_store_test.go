package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/audit"
)

// simReplica is a store as the simulation needs it.
type simReplica struct {
	Counter                 // takes the steps
	memory  *counter.Memory // has all else
}

// simStore is the store behind links that lose, delay and repeat. Its replicas take the same steps at the same moment,
// so that a failover which loses the last writes is a switch to the next one.
type simStore struct {
	fresh    func() simReplica
	replicas []simReplica // the first serves
	stalled  bool         // the others do not follow any more
	down     bool
	broken   int           // so many of the next requests go wrong
	sour     int           // percent of the requests that go wrong
	late     []*simRequest // whose senders wait no longer

	lateLanes []func() // steps in lanes whose senders wait no longer
}

const simReplicas = 3

func newSimStore(fresh func() simReplica) simStore {
	s := simStore{fresh: fresh}
	s.replace()
	return s
}

func (s *simStore) replace() {
	s.replicas, s.stalled = nil, false
	for range simReplicas {
		s.replicas = append(s.replicas, s.fresh())
	}
}

// memories are those of the replicas that take the writes.
func (s *simStore) memories() (all []*counter.Memory) {
	for i, replica := range s.replicas {
		if i == 0 || !s.stalled {
			all = append(all, replica.memory)
		}
	}
	return all
}

// away begins or ends an outage.
func (s *simStore) away(w *simWorld) {
	s.down = !s.down
	w.tell("the store is %s", map[bool]string{true: "down", false: "back"}[s.down])
}

// lose forgets everything, or the writes since the replicas stalled.
func (s *simStore) lose(w *simWorld) {
	if s.stalled && len(s.replicas) > 1 {
		s.replicas, s.stalled = s.replicas[1:], false
		w.note(audit.Event{Kind: audit.Forgot, Err: "failover to a replica that was behind"})
		return
	}
	s.replace()
	w.note(audit.Event{Kind: audit.Forgot, Err: "flush"})
}

func (s *simStore) stall(w *simWorld) {
	if !s.stalled && len(s.replicas) > 1 {
		s.stalled = true
		w.tell("the replicas stall")
	}
}

func (s *simStore) repair(w *simWorld) {
	if s.down {
		s.away(w)
	}
	if s.stalled { // and never fails over
		s.replicas, s.stalled = s.replicas[:1], false
	}
	s.broken, s.sour = 0, 0
}

// simRequest is one step on its way to the store.
type simRequest struct {
	session *simSession
	name    string
	attempt counter.Attempt
	mode    rules.Mode
	limit   int
	ok      bool // of END
	send    func(context.Context, Counter) (counter.Reply, error)
	answer  counter.Reply
	err     error
}

// event is one of r's step.
func (r *simRequest) event(kind audit.Kind) audit.Event {
	return audit.Event{
		Kind: kind, Process: r.session.proc.id, Session: r.session.id, ID: r.attempt.ID, Token: r.attempt.Token,
		Step: r.name, Isolated: r.mode == rules.ModeIsolated, Beside: r.mode == rules.ModeBesideAbandoned,
	}
}

// execute takes the step on every replica that follows.
func (s *simStore) execute(w *simWorld, r *simRequest, late bool) {
	if r.name == audit.StepBegun {
		w.note(r.event(audit.Asked))
	}
	e := r.event(audit.Written)
	e.Late, e.First, e.Limit, e.Succeeded = late, r.attempt.First, r.limit, r.ok
	e.Before = s.record(r)
	for i, replica := range s.replicas {
		if i > 0 && s.stalled {
			break
		}
		answer, err := r.send(context.Background(), replica)
		if i == 0 {
			r.answer, r.err = answer, err
		}
	}
	e.Record, e.Code = s.record(r), r.code()
	w.note(e)
}

func (r *simRequest) code() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.name == audit.StepEnd:
		return "ended"
	}
	return strings.ToLower(r.answer.Code.String())
}

func (s *simStore) record(r *simRequest) *audit.Record {
	records, err := s.replicas[0].memory.Get(context.Background(), r.attempt.VHost, r.attempt.Queue, r.attempt.ID)
	if err != nil || len(records) == 0 {
		return nil
	}
	rec := records[0]
	var tokens strings.Builder
	for _, t := range rec.Tokens { // the names differ between two simulations of a seed, their order does not
		fmt.Fprintf(&tokens, ";%s=%c", t.Name, t.Kind)
	}
	return &audit.Record{
		State: string(rec.State), Failures: rec.Failures, Crashes: rec.Crashes, Tokens: tokens.String(),
		Duplicate: rec.PossibleDuplicate, Cause: string(rec.Cause), Age: rec.LastTime.Sub(rec.FirstTime),
	}
}

// arrive executes a late request.
func (s *simStore) arrive(w *simWorld, i int) {
	r := s.late[i]
	s.late = slices.Delete(s.late, i, i+1)
	if !s.down {
		s.execute(w, r, true)
	}
}

// delay keeps a request on its way, although its sender waits no longer.
func (s *simStore) delay(w *simWorld, r *simRequest) {
	w.noteLost(r, "the request is late")
	late := *r
	s.late = append(s.late, &late)
}

// serve decides the fate of a request: it is served, or it or its reply is lost, or it is late.
func (s *simStore) serve(w *simWorld, r *simRequest) {
	fate := 0
	if s.broken > 0 {
		s.broken--
		fate = 1 + w.rng.IntN(3)
	} else if s.sour > 0 && w.rng.IntN(100) < s.sour {
		fate = 1 + w.rng.IntN(4)
	}
	switch {
	case s.down:
		w.noteLost(r, "the store is away")
		r.err = errSimDown
	case fate == 1:
		w.noteLost(r, "the request is lost")
		r.err = errSimDown
	case fate == 2:
		s.delay(w, r)
		r.err = errSimDown
	default:
		s.execute(w, r, false)
		switch fate {
		case 3:
			w.noteLost(r, "the reply is lost")
			r.answer, r.err = counter.Reply{}, errSimDown
		case 4: // the request arrives twice
			again := *r
			s.late = append(s.late, &again)
		}
	}
	if r.err == nil {
		e := r.event(audit.Stepped)
		e.Code = r.code()
		w.note(e)
	}
}

func (w *simWorld) noteLost(r *simRequest, what string) {
	e := r.event(audit.Stepped)
	e.Err = what
	w.note(e)
}

var errSimDown = errors.New("the store did not answer")

// simLink is the Counter of one session. The Counter within takes the calls that the world does not simulate.
type simLink struct {
	Counter
	session *simSession
	asked   int64 // for the lanes
}

func newSimLink(s *simSession) *simLink { return &simLink{Counter: counter.NewMemory(nil), session: s} }

func (l *simLink) Start(ctx context.Context, a counter.Attempt, mode rules.Mode, limit int) (counter.Reply, error) {
	return l.call(ctx, &simRequest{name: audit.StepStart, attempt: a, mode: mode, limit: limit,
		send: func(ctx context.Context, c Counter) (counter.Reply, error) {
			return c.Start(ctx, a, mode, limit)
		}})
}

func (l *simLink) Begun(ctx context.Context, a counter.Attempt) (counter.Reply, error) {
	return l.call(ctx, &simRequest{name: audit.StepBegun, attempt: a, send: func(ctx context.Context,
		c Counter) (counter.Reply, error) {
		return c.Begun(ctx, a)
	}})
}

func (l *simLink) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	return l.call(ctx, &simRequest{name: audit.StepFail, attempt: a, limit: f.Limit, send: func(ctx context.Context,
		c Counter) (counter.Reply, error) {
		return c.Fail(ctx, a, f)
	}})
}

func (l *simLink) End(ctx context.Context, a counter.Attempt, ok bool) error {
	_, err := l.call(ctx, &simRequest{name: audit.StepEnd, attempt: a, ok: ok, limit: 1, send: func(ctx context.Context,
		c Counter) (counter.Reply, error) {
		return counter.Reply{}, c.End(ctx, a, ok)
	}})
	return err
}

// call waits for the world to serve r, at most until ctx is done. Then the fate of r is unknown.
func (l *simLink) call(ctx context.Context, r *simRequest) (counter.Reply, error) {
	r.session = l.session
	w := l.session.world
	op := &simOp{proc: l.session.proc, session: l.session.id, kind: "store", number: numberOf(r.attempt.Token)}
	op.act = func() bool {
		w.store.serve(w, r)
		if !w.besieges(r) {
			return true
		}
		op.killed = nil
		w.kill(l.session.proc, "a fault", "")
		return false
	}
	op.drop = func() { r.err = errSimDown }
	op.killed = func() {
		if w.chance(2) { // it was sent before the process died
			w.store.delay(w, r)
		}
	}
	w.park(op)
	select {
	case <-op.done:
		return r.answer, r.err
	case <-ctx.Done():
	}
	time.Sleep(time.Duration(op.number - w.first)) // no two at the same moment
	if w.unpark(op) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.store.delay(w, r)
	}
	return counter.Reply{}, fmt.Errorf("%w: %w", errSimDown, ctx.Err())
}

// eagerStore lets a crash be counted from START on, before the handler was about to be called.
type eagerStore struct{ *counter.Memory }

func (s eagerStore) Start(ctx context.Context, a counter.Attempt, mode rules.Mode, limit int) (counter.Reply, error) {
	reply, err := s.Memory.Start(ctx, a, mode, limit)
	if err == nil && reply.Code == rules.ReplyRun && mode == rules.ModeIsolated {
		_, err = s.Begun(ctx, a)
	}
	return reply, err
}

// plainCount counts as INCR does: by the number of requests that arrive, from any sender.
type plainCount struct {
	*counter.Memory
	counts map[string]int
}

func newPlainCount() simReplica {
	memory := counter.NewMemory(nil)
	return simReplica{&plainCount{memory, map[string]int{}}, memory}
}

func (p *plainCount) Start(_ context.Context, a counter.Attempt, _ rules.Mode, limit int) (counter.Reply, error) {
	if p.counts[a.ID] >= limit {
		return counter.Reply{Code: rules.ReplyExhausted, Failures: p.counts[a.ID], Limit: limit}, nil
	}
	return counter.Reply{Code: rules.ReplyRun, Failures: p.counts[a.ID], Limit: limit}, nil
}

func (p *plainCount) Begun(context.Context, counter.Attempt) (counter.Reply, error) {
	return counter.Reply{Code: rules.ReplyBegun}, nil
}

func (p *plainCount) Fail(_ context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	p.counts[a.ID]++
	answer := counter.Reply{Code: rules.ReplyRequeue, Failures: p.counts[a.ID], Limit: f.Limit, Wait: f.Wait}
	if p.counts[a.ID] >= f.Limit {
		answer.Code = rules.ReplyExhausted
	}
	return answer, nil
}

func (p *plainCount) End(_ context.Context, a counter.Attempt, succeeded bool) error {
	if succeeded {
		delete(p.counts, a.ID)
	}
	return nil
}
