// Package breaker keeps attempts from beginning while no message of a queue succeeds.
package breaker

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

const (
	every   = time.Second            // between two reads of the breaker
	soon    = 250 * time.Millisecond // the same, while messages have failed with no success since
	timeout = 500 * time.Millisecond // of a read
	blindly = 5 * time.Second        // without a reply of the store, after which first deliveries begin
	idle    = 5 * time.Second        // without a success of others, after which a process is not alone in failing
	settle  = 300 * time.Millisecond // a failed message waits so long for a fresh one to take its probe
	arrive  = time.Second            // the same, if the fresh ones are only fetched now
	turn    = 20 * time.Millisecond  // see due
	turns   = 10                     // for so many permits after its own a process asks later
)

// Options are the settings of a Gate.
type Options struct {
	Ask      func(ctx context.Context, a counter.Ask) (counter.BreakerState, error) // reports to the breaker of the queue
	Breaker  int
	Patience time.Duration
	Fresh    bool // messages beyond the prefetch can be fetched
	Logger   *slog.Logger
}

// Waiting is a delivery that waits at a Gate.
type Waiting struct {
	Probes   int  // how many attempts at it were probes
	Failures int  // its failed attempts, counted or not
	First    bool // its attempt needs no store

	passes chan bool // true: the attempt is a probe
}

// Gate is the breaker in a process. It is shut while the breaker of the queue is open, and while Breaker messages have
// failed in this process and other processes succeed.
type Gate struct {
	Options

	// Fetches gets a request for fresh messages when a permit is left and all messages here have failed. The request is
	// a channel that closes once no more are needed.
	Fetches chan (<-chan struct{})

	shut    atomic.Bool
	again   chan struct{}
	running chan struct{} // taken while Run reads the breaker

	mu           sync.Mutex
	began, ended time.Time // the latest begin and end of successes to report; zero: reported
	state        counter.BreakerState
	heard        time.Time     // when the store replied last
	missed       bool          // the store did not reply to the last read
	asked        bool          // a read since the store last replied asked for a permit
	calm         chan struct{} // closed to end the fetch of fresh messages; nil: none are fetched
	waiting      []*Waiting

	failed  int       // messages that failed here since the last success here
	alone   time.Time // since when failed is at least Breaker; zero: it is less
	permits int       // the permits that are left
	until   time.Time // when the permits expire
	others  time.Time // when another process was known to have succeeded meanwhile
	won     int       // the last permit that the store gave this process since the opening, by number; 0: none
	next    time.Time // of the next permit, if the process has stopped alone; zero: it has not
}

// New returns a Gate that is open.
func New(o Options) *Gate {
	return &Gate{Options: o, again: make(chan struct{}, 1), Fetches: make(chan (<-chan struct{}), 1),
		running: make(chan struct{}, 1), heard: time.Now()}
}

// Shut reports whether attempts must wait.
func (g *Gate) Shut() bool { return g.shut.Load() }

// FetchNone keeps the gate from asking for fresh messages, because the broker refuses to deliver them.
func (g *Gate) FetchNone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Fresh = false
}

// Progress returns the progress that a step reports to the store. attempt is when the attempt began; zero: it has not.
func (g *Gate) Progress(attempt time.Time) counter.Progress {
	g.mu.Lock()
	defer g.mu.Unlock()
	return counter.Progress{Breaker: g.Breaker, Patience: g.Patience, Began: g.began, Ended: g.ended, Attempt: attempt,
		Failing: !g.alone.IsZero()}
}

// Reported is called after the store has replied to a step with this progress. Each success is reported once: a report
// that the store takes late seems to be of a later success.
func (g *Gate) Reported(p counter.Progress) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.began.Equal(p.Began) {
		g.began = time.Time{}
	}
	if g.ended.Equal(p.Ended) {
		g.ended = time.Time{}
	}
}

// Succeeded is called after each attempt that succeeded.
func (g *Gate) Succeeded(began, ended time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if began.After(g.began) {
		g.began = began
	}
	if ended.After(g.ended) {
		g.ended = ended
	}
	g.goOn("a message succeeded in this process: it goes on")
	if !g.state.Doubt.IsZero() {
		g.wake()
	}
}

// Failed is called after the store has replied to a failure. first: it is the first failure of its message. kept: the
// breaker kept it from being counted.
func (g *Gate) Failed(first, kept bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if kept && g.state.Doubt.IsZero() && g.alone.IsZero() {
		g.wake() // the breaker has changed
	}
	if first && g.state.Doubt.IsZero() {
		if g.failed++; g.failed == g.Breaker {
			g.alone = time.Now()
			g.update()
			g.fetch() // all that it has prefetched may fail always, while another message succeeds
		}
	}
}

// Wait returns when the attempt may begin, and whether it is a probe. passed is false if ctx ended or until came
// first.
func (g *Gate) Wait(ctx context.Context, until time.Time, w *Waiting) (passed, probe bool) {
	g.mu.Lock()
	w.passes = make(chan bool, 1)
	g.waiting = append(g.waiting, w)
	if len(g.waiting) == 1 {
		g.wake()
	}
	g.spend(false)
	g.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case probe = <-w.passes:
		return true, probe
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(x *Waiting) bool { return x == w })
	if passed = len(w.passes) > 0; passed { // meanwhile
		probe = <-w.passes
	}
	return passed, probe
}

// Run reads the breaker once a second, and when a permit may be due, until ctx is done. Then it reports the last
// success, if the store replies. Each session calls it. One of them reads at a time.
func (g *Gate) Run(ctx context.Context) {
	select {
	case g.running <- struct{}{}:
	case <-ctx.Done(): // the session on another partition reads
		return
	}
	defer func() { <-g.running }()
	g.mu.Lock()
	g.fetchEnds() // those of the session before have returned to the queue
	g.mu.Unlock()
	for {
		g.ask(ctx)
		g.mu.Lock()
		g.stopAlone(time.Now())
		wait, missed := every, g.missed
		switch {
		case missed:
		case !g.state.Open.IsZero() && len(g.waiting) > 0:
			wait = min(max(time.Until(g.due()), time.Millisecond), every)
		case g.state.Open.IsZero() && len(g.state.Streak) > 0:
			wait = soon
		}
		g.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-g.again:
		case <-ctx.Done():
			if p := g.Progress(time.Time{}); !missed && (!p.Began.IsZero() || !p.Ended.IsZero()) {
				g.ask(ctx) // perhaps no other read reports the success
			}
			return
		}
	}
}

// due is when this process asks for the next permit: 200 ms late if it had the last one, 20 ms less for each permit
// since. Otherwise the process nearest to the store would get all permits.
func (g *Gate) due() time.Time {
	due := g.heard.Add(g.state.Next.Sub(g.state.Now))
	if since := g.state.Permits - g.won; g.won > 0 && since >= 0 && since < turns {
		due = due.Add(time.Duration(turns-since) * turn)
	}
	return due
}

// wake makes Run read the breaker now.
func (g *Gate) wake() {
	select {
	case g.again <- struct{}{}:
	default:
	}
}

func (g *Gate) ask(ctx context.Context) {
	a := counter.Ask{Progress: g.Progress(time.Time{})}
	g.mu.Lock()
	a.Wants, a.Seen = len(g.waiting) > 0 && !g.missed && !time.Now().Before(g.due()), g.state.Breaker
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	state, err := g.Ask(ctx, a)
	if err == nil {
		g.Reported(a.Progress)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before, asked := g.state, g.asked
	if g.missed, g.asked = err != nil, err != nil && (asked || a.Wants); g.missed {
		g.update()
		return
	}
	g.state, g.heard = state, time.Now()
	switch {
	case before.Open.IsZero() && !state.Open.IsZero():
		g.won = 0
		g.Logger.Warn("no message succeeds: only probes begin, and no failure is counted",
			"failed", len(state.Streak), "reason", state.Reason)
	case !before.Open.IsZero() && state.Open.IsZero():
		g.Logger.Warn("attempts begin again", "after", state.Now.Sub(before.Open).Round(time.Second))
		g.failed, g.alone, g.next = 0, time.Time{}, time.Time{}
	case state.Success.After(before.Success):
		g.others = g.heard
	}
	g.update()
	lost := asked && !state.Open.IsZero() && state.Permits > before.Permits // perhaps the permit was in the lost reply
	if state.Permitted || lost {
		g.won = state.Permits
		g.permit()
	}
}

// stopAlone stops this process, in which every message fails while others succeed, and gives it its own permits.
func (g *Gate) stopAlone(now time.Time) {
	switch {
	case g.alone.IsZero() || !g.state.Doubt.IsZero():
	case g.state.Count.After(g.state.Now):
		g.goOn("an operator wants every failure counted: this process goes on")
	case !g.missed && now.Sub(g.alone) > idle && now.Sub(g.others) > idle: // perhaps only poison is left
		g.goOn("no message succeeds in other processes either: this process goes on, and its failures count")
	case g.next.IsZero() && now.Sub(g.alone) >= rules.DoubtLasts:
		g.next = now.Add(rules.FirstPermit)
		g.Logger.Warn("no message succeeds in this process, while others succeed: it begins only probes, and "+
			"counts nothing", "failed", g.failed)
		g.update()
	case !g.next.IsZero() && !now.Before(g.next) && len(g.waiting) > 0:
		g.next = now.Add(rules.LaterPermits)
		g.permit()
	}
}

// goOn counts the failures in this process from 0 again. If the process has stopped alone, it goes on and logs why. The
// caller has locked g.mu.
func (g *Gate) goOn(why string) {
	if !g.next.IsZero() {
		g.Logger.Warn(why)
	}
	g.failed, g.alone, g.next = 0, time.Time{}, time.Time{}
	g.update()
}

// update opens or shuts the gate. The caller has locked g.mu.
func (g *Gate) update() {
	shut := !g.state.Open.IsZero() || !g.next.IsZero()
	if g.shut.Swap(shut) != shut {
		g.permits = 0
	}
	if !shut && g.alone.IsZero() {
		g.fetchEnds()
	}
	g.spend(false)
}

// fetch asks for fresh messages, unless they are fetched already. It reports whether it did. The caller has locked
// g.mu.
func (g *Gate) fetch() bool {
	if !g.Fresh || g.calm != nil {
		return false
	}
	g.calm = make(chan struct{})
	g.Fetches <- g.calm // has room: fetchEnds takes back a request that no session took
	return true
}

// fetchEnds ends the fetch of fresh messages, if there is one. The caller has locked g.mu.
func (g *Gate) fetchEnds() {
	if g.calm == nil {
		return
	}
	close(g.calm)
	g.calm = nil
	select {
	case <-g.Fetches:
	default:
	}
}

// permit takes a permit. The caller has locked g.mu.
func (g *Gate) permit() {
	g.permits, g.until = rules.Probes, time.Now().Add(rules.LaterPermits)
	g.spend(false)
	if g.permits == 0 {
		return
	}
	wait := settle
	if g.fetch() {
		wait = arrive
	}
	time.AfterFunc(wait, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.spend(true)
	})
}

// spend lets waiting deliveries go: all if the gate is open, else one for each permit. Fresh ones go first. If any is
// true, failed ones follow, those with the fewest attempts first. The caller has locked g.mu.
func (g *Gate) spend(all bool) {
	slices.SortStableFunc(g.waiting, func(a, b *Waiting) int {
		return cmp.Or(a.Probes-b.Probes, a.Failures-b.Failures)
	})
	if !g.shut.Load() {
		g.open()
		return
	}
	if time.Now().After(g.until) {
		g.permits = 0
	}
	blind := g.missed && time.Since(g.heard) >= blindly
	g.waiting = slices.DeleteFunc(g.waiting, func(w *Waiting) bool {
		switch {
		case blind && w.First:
			w.passes <- false
		case g.permits > 0 && (all || !g.Fresh || w.Probes+w.Failures == 0):
			g.permits--
			w.passes <- true
		default:
			return false
		}
		return true
	})
}

// open lets all go, those that have failed often between those that have not. Many failures in a row would look like
// the outage that has just ended.
func (g *Gate) open() {
	for i := range g.waiting {
		at := i / 2
		if i%2 == 1 {
			at = len(g.waiting) - 1 - at
		}
		g.waiting[at].passes <- false
	}
	g.waiting = nil
}
