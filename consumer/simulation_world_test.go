package consumer

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/audit"
)

// simWorld runs one schedule: a broker, a store and processes that run the code of this package, in virtual time.
// Each request of a process to the world waits as a simOp. The seed decides which one is carried out next, and which
// fault comes before it. Nothing else runs meanwhile, so a seed gives the same schedule every time.
type simWorld struct {
	rng     *rand.Rand
	plan    simPlan
	first   int64 // number of a token
	history []audit.Event
	noting  sync.Mutex // a read that was given up may be noted beside a step
	broker  simBroker
	store   simStore
	procs   []*simProc // dead ones too

	faults   int            // still to come
	toDo     int            // operations still to come
	sieges   int            // still to come
	calm     bool           // no faults any more
	ending   bool           // handlers that hang without end are let go
	runs     map[string]int // of each message
	sessions int            // opened so far
	judge    laneJudge
	report   *audit.Report // at the end
	operator simLaneOperator
	shares   simShares

	mu     sync.Mutex
	parked []*simOp
	wake   chan struct{}
}

// begun is the number of attempts.
func (w *simWorld) begun() (n int) {
	for _, runs := range w.runs {
		n += runs
	}
	return n
}

// simOp is something that a process asks of the world and waits for.
type simOp struct {
	proc    *simProc
	session int
	kind    string // "store", "settle", "close", "begin" or "handler"
	number  int64  // tells ops of a kind apart

	ready  func() bool      // if nil, immediately
	act    func() (ok bool) // carried out by the world; false: it stays parked
	drop   func()           // its process is dead: no effect
	killed func()           // its process dies while it waits; may be nil
	done   chan struct{}
}

// park hands an op to the world. The caller waits for op.done.
func (w *simWorld) park(op *simOp) {
	op.done = make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if op.proc.dead.Load() {
		op.drop()
		close(op.done)
		return
	}
	w.parked = append(w.parked, op)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// unpark takes an op back, and reports whether it was still there.
func (w *simWorld) unpark(op *simOp) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.parked, op)
	if i < 0 {
		return false
	}
	w.parked = slices.Delete(w.parked, i, i+1)
	return true
}

func (w *simWorld) take(op *simOp) {
	if op.act() {
		w.unpark(op)
		close(op.done)
	}
}

// waiting returns the parked operations, in an order that does not depend on the Go scheduler.
func (w *simWorld) waiting() []*simOp {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.parked, func(a, b *simOp) int {
		return cmp.Or(cmp.Compare(a.proc.id, b.proc.id), cmp.Compare(a.session, b.session), cmp.Compare(a.kind, b.kind),
			cmp.Compare(a.number, b.number))
	})
	return slices.Clone(w.parked)
}

func (w *simWorld) note(e audit.Event) {
	w.noting.Lock()
	defer w.noting.Unlock()
	e.At = time.Now()
	w.history = append(w.history, e)
}

// tell notes a fact for the reader of the history.
func (w *simWorld) tell(format string, args ...any) {
	w.note(audit.Event{Kind: audit.Happened, Err: fmt.Sprintf(format, args...)})
}

// chance is true once in n times.
func (w *simWorld) chance(n int) bool { return w.rng.IntN(n) == 0 }

// play runs the schedule to its end: faults, then calm until every message is settled, then a stop of every process.
func (w *simWorld) play() {
	w.first = numberOf(token(tokens.Add(1)).String())
	w.note(audit.Event{Kind: audit.Setup, Plan: w.plan.audited()})
	for _, m := range w.plan.messages {
		for n := range m.copies {
			w.publish(m, m.before+n)
		}
	}
	for n := 0; n < simMostSteps && !w.settled() && !w.runaway(); n++ {
		if n == simFaultSteps*(1+w.plan.partitions) || !w.calm && w.faults == 0 {
			w.becalm()
		}
		w.step()
	}
	w.becalm()
	w.end()
}

// runaway reports whether a message has run far beyond any bound: there is no use in going on.
func (w *simWorld) runaway() bool {
	for _, m := range w.plan.messages {
		if w.runs[m.id] > simMostRuns {
			return true
		}
	}
	return false
}

func (w *simWorld) settled() bool {
	return len(w.broker.waiting) == 0 && !slices.ContainsFunc(w.broker.queue, func(m *simMessage) bool {
		return !m.gone
	}) && (!w.plan.hold || w.released()) && (w.plan.partitions == 0 || w.calm && w.isEven())
}

// end delivers the late requests, stops every process, and waits for them to end as they should.
func (w *simWorld) end() {
	w.ending = true
	for len(w.store.late) > 0 {
		w.store.arrive(w, w.rng.IntN(len(w.store.late)))
	}
	for _, p := range w.procs {
		if !p.dead.Load() {
			w.stop(p)
		}
	}
	for n := 0; n < simMostSteps && w.running() > 0; n++ {
		w.step()
	}
	for _, p := range w.procs {
		if !p.dead.Load() {
			w.note(audit.Event{Kind: audit.Undrained, Err: fmt.Sprintf("process %d did not stop", p.id)})
			w.kill(p, "the end of the schedule", "")
		}
	}
	time.Sleep(settleTimeout) // the last goroutines of dead processes end
	for _, m := range w.broker.waiting {
		w.note(audit.Event{Kind: audit.Undrained, Err: m.name + " is still in its delay queue"})
	}
	for _, m := range w.broker.queue {
		if !m.gone {
			w.note(audit.Event{Kind: audit.Undrained, Err: m.name + " was never settled"})
		}
	}
}

func (w *simWorld) running() int {
	n := 0
	for _, p := range w.procs {
		if !p.dead.Load() {
			n++
		}
	}
	return n
}

// step lets a little time pass and does one thing that is possible, or waits until one is.
func (w *simWorld) step() {
	time.Sleep(1 + time.Duration(w.rng.Int64N(int64(2*time.Millisecond))))
	synctest.Wait()
	w.reap()
	w.judgeShares()
	if w.faults > 0 && !w.calm && w.chance(8) {
		if w.plan.partitions == 0 || w.chance(2) || !w.lie() {
			w.fault()
		}
		return
	}
	if len(w.store.late) > 0 && w.chance(10) {
		w.store.arrive(w, w.rng.IntN(len(w.store.late)))
		return
	}
	if n := len(w.store.lateLanes); n > 0 && w.chance(10) {
		w.store.arriveLane(w.rng.IntN(n))
		return
	}
	if w.plan.hold && w.chance(6) && w.operateLanes() {
		return
	}
	if w.plan.whole && w.chance(6) && w.operateQueue() {
		return
	}
	if w.toDo > 0 && w.chance(12) {
		w.operate()
		return
	}
	if possible := w.possible(); len(possible) > 0 {
		possible[w.rng.IntN(len(possible))]()
		return
	}
	w.idle()
}

// idle lets time pass until something is asked for.
func (w *simWorld) idle() {
	most := 700 * time.Millisecond
	if w.calm {
		most = 10 * time.Second
	}
	wait := time.Duration(1 + w.rng.Int64N(int64(most)))
	if due, ok := w.broker.nextExpiry(); ok && (w.calm || w.chance(2)) {
		for len(w.store.late) > 0 { // no network keeps a request for hours
			w.store.arrive(w, 0)
		}
		wait = max(wait, due)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-w.wake:
	case <-timer.C:
	}
	synctest.Wait()
}

// possible lists the events that may happen next if nothing goes wrong.
func (w *simWorld) possible() []func() {
	var out []func()
	for _, op := range w.waiting() {
		frozen := time.Now().Before(op.proc.frozen) && op.kind != "begin" // a handler that was called has begun
		if !frozen && (op.ready == nil || op.ready()) {
			out = append(out, func() { w.take(op) })
		}
	}
	for _, p := range w.procs {
		if p.dead.Load() {
			continue
		}
		for _, s := range p.sessions {
			if s.cut && !s.told && !time.Now().Before(p.frozen) && (w.ending || !time.Now().Before(s.zombie)) {
				out = append(out, func() { s.observe() })
			}
			if m := w.broker.next(s); m != nil {
				out = append(out, func() { w.deliver(s, m) })
			}
		}
		if w.plan.partitions == 0 && !p.stopping && !w.ending && len(p.sessions) < w.plan.consumers && p.mayConsume() {
			out = append(out, func() { w.open(p) })
		}
	}
	if m := w.broker.expired(); m != nil {
		out = append(out, func() { w.expire(m) })
	}
	if w.running() < w.plan.processes && !w.ending {
		out = append(out, func() { w.start() })
	}
	return out
}

// fault lets one thing go wrong. Faults of a single request to the store are drawn in simStore.
func (w *simWorld) fault() {
	w.faults--
	p, s := w.victim()
	fault := w.rng.IntN(27) / 2
	if w.plan.hold && fault == 8 { // a store that forgets is told of in guarantees.md
		fault = 3
	}
	switch fault {
	case 0, 1:
		if p != nil {
			w.kill(p, "a fault", "")
		}
	case 2:
		if p != nil && !p.stopping {
			w.stop(p)
		}
	case 3, 4, 5:
		if s != nil && !s.cut {
			w.cut(s)
		}
	case 6:
		if s != nil && !s.cut && !s.cancelled && !w.plan.ordered {
			s.cancelled = true
			w.note(audit.Event{Kind: audit.Told, Process: p.id, Session: s.id, Err: "the consumer is cancelled"})
			s.cancel <- "sim"
		}
	case 7:
		w.store.away(w)
	case 8:
		w.store.lose(w)
	case 9:
		w.store.stall(w)
	case 10:
		w.sleep(simLong[w.rng.IntN(len(simLong))])
	case 11:
		w.store.broken = 1 + w.rng.IntN(4) // the next few requests go wrong
	case 12:
		w.restart()
	case 13:
		w.store.sour = 10 + w.rng.IntN(60) // percent of the requests go wrong until it is calm
		w.tell("%d %% of the requests to the store go wrong", w.store.sour)
	}
}

// besieges decides whether the sender of a step is killed from outside before it gets the reply. Most often the step is
// START isolated, and rarely BEGUN: after that the store has to count it.
func (w *simWorld) besieges(r *simRequest) bool {
	if w.sieges == 0 || w.calm || r.name == audit.StepStart && r.mode != rules.ModeIsolated ||
		r.name != audit.StepStart && r.name != audit.StepBegun {
		return false
	}
	if !w.chance(map[string]int{audit.StepStart: 2, audit.StepBegun: 12}[r.name]) {
		return false
	}
	w.sieges--
	return true
}

// simLong are pauses of the whole machine, such as a slow store or a stopped clock.
var simLong = []time.Duration{300 * time.Millisecond, 1100 * time.Millisecond, 3 * time.Second, 7 * time.Second,
	40 * time.Second}

func (w *simWorld) sleep(d time.Duration) {
	w.note(audit.Event{Kind: audit.Stalled, Err: d.String()})
	w.pass(d, "begin") // a handler that was called has begun
}

// pass lets time pass in which nothing happens but ops of some kinds.
func (w *simWorld) pass(d time.Duration, kinds ...string) {
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		synctest.Wait()
		for _, op := range w.waiting() {
			if slices.Contains(kinds, op.kind) {
				w.take(op)
			}
		}
		select {
		case <-w.wake:
		case <-over.C:
			synctest.Wait()
			return
		}
	}
}

// victim draws a process that lives, and one of its sessions.
func (w *simWorld) victim() (*simProc, *simSession) {
	var living []*simProc
	for _, p := range w.procs {
		if !p.dead.Load() {
			living = append(living, p)
		}
	}
	if len(living) == 0 {
		return nil, nil
	}
	p := living[w.rng.IntN(len(living))]
	if len(p.sessions) == 0 {
		return p, nil
	}
	return p, p.sessions[w.rng.IntN(len(p.sessions))]
}

// becalm ends every fault that lasts.
func (w *simWorld) becalm() {
	if w.calm {
		return
	}
	w.calm, w.faults, w.toDo = true, 0, 0
	w.truth()
	w.tell("calm")
	w.store.repair(w)
	w.resume()
}
