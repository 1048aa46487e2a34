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
	turns   = 200 * time.Millisecond // the longest that a process leaves a permit to others
)

// Options are the settings of a Gate.
type Options struct {
	Ask      func(ctx context.Context, a counter.Ask) (counter.BreakerState, error) // reports to the breaker of the queue
	Breaker  int
	Patience time.Duration
	Draw     func(below time.Duration) time.Duration // returns a random wait
	Fresh    bool                                    // messages beyond the prefetch can be fetched
	Logger   *slog.Logger
}

// Waiting is a delivery that waits at a Gate.
type Waiting struct {
	Probes   int  // how many attempts at it were probes; Wait counts them
	Failures int  // its failed attempts, counted or not
	First    bool // its attempt needs no store

	passes chan struct{}
}

// Gate holds back the attempts of a process while the breaker of the queue is open. It also has a breaker of its own, by
// the same rules, for the case that messages fail in this process while others succeed.
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
	since        time.Time     // when the gate was shut or opened last
	heard        time.Time     // when the store replied last
	due          time.Time     // when this process asks for the next permit
	missed       bool          // the store did not reply to the last read
	asked        bool          // a read since the store last replied asked for a permit
	calm         chan struct{} // closed to end the fetch of fresh messages; nil: none are fetched
	waiting      []*Waiting

	own     rules.Breaker // its streak has the failures since the last success here
	others  time.Time     // when another process was known to have succeeded meanwhile
	permits int           // the attempts that are left of a permit
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
		Failing: g.own.Stops()}
}

// Reported is called after the store has replied to a step with this progress. Each success is reported once: a report
// that the store takes late seems to be of a later success.
func (g *Gate) Reported(p counter.Progress) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.began.Equal(p.Began) && g.ended.Equal(p.Ended) {
		g.began, g.ended = time.Time{}, time.Time{}
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
	g.goOn()
	if !g.state.Doubt.IsZero() {
		g.wake()
	}
}

// Failed is called after the store has replied to the first failure of a message.
func (g *Gate) Failed(id, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.state.Stops() && !g.own.Stops() && g.own.Lengthen(id, reason, g.Breaker, time.Now()) && g.own.Stops() {
		g.fetch() // all that it has prefetched may fail always, while another message succeeds
	}
}

// Wait returns true once the attempt may begin, and false if ctx ended or until came first.
func (g *Gate) Wait(ctx context.Context, until time.Time, w *Waiting) (passed bool) {
	g.mu.Lock()
	w.passes = make(chan struct{}, 1)
	g.waiting = append(g.waiting, w)
	if len(g.waiting) == 1 {
		g.wake()
	}
	g.spend(false)
	g.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case <-w.passes:
		return true
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(x *Waiting) bool { return x == w })
	return len(w.passes) > 0 // meanwhile
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
		wait := g.read(ctx)
		select {
		case <-time.After(wait):
		case <-g.again:
		case <-ctx.Done():
			if p := g.Progress(time.Time{}); !g.missed && (!p.Began.IsZero() || !p.Ended.IsZero()) {
				g.read(ctx) // perhaps no other read reports the success
			}
			return
		}
	}
}

// wake makes Run read the breaker now.
func (g *Gate) wake() {
	select {
	case g.again <- struct{}{}:
	default:
	}
}

// read reads the breaker, and returns the wait until the next read.
func (g *Gate) read(ctx context.Context) (wait time.Duration) {
	a := counter.Ask{Progress: g.Progress(time.Time{})}
	g.mu.Lock()
	a.Wants = len(g.waiting) > 0 && !g.missed && !time.Now().Before(g.due)
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	state, err := g.Ask(ctx, a)
	if err == nil {
		g.Reported(a.Progress)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before, asked, now := g.state, g.asked, time.Now()
	if g.missed, g.asked = err != nil, err != nil && (asked || a.Wants); !g.missed {
		g.state, g.heard = state, now
		// A random wait gives each process its turn. Without it the one nearest to the store would get all permits.
		g.due = now.Add(state.Next.Sub(state.Now) + g.Draw(turns))
		switch {
		case !before.Open.IsZero() && state.Open.IsZero():
			g.goOn()
		case state.Success.After(before.Success):
			g.others = now
		}
	}
	g.update()
	lost := asked && !g.state.Open.IsZero() && g.state.Permits > before.Permits // perhaps its reply had a permit
	if !g.missed && (state.Permitted || lost) {
		g.permit()
	}
	g.judgeOwn(now)
	switch open := !g.state.Open.IsZero(); {
	case g.missed:
	case open && len(g.waiting) > 0:
		return min(max(g.due.Sub(now), time.Millisecond), every)
	case !open && len(g.state.Streak) > 0:
		return soon
	}
	return every
}

// judgeOwn opens the process's own breaker while others succeed, and lets it give permits. The caller has locked g.mu.
func (g *Gate) judgeOwn(now time.Time) {
	switch since := g.own.Doubt; {
	case !g.own.Stops() || g.state.Stops():
	case g.state.Count.After(g.state.Now), // an operator wants every failure counted
		!g.missed && now.Sub(since) > idle && now.Sub(g.others) > idle: // perhaps only poison is left
		g.goOn()
	default:
		g.own.Learn(rules.Progress{}, now)
		g.update()
		if len(g.waiting) > 0 && g.own.Permit(now) {
			g.permit()
		}
	}
}

// goOn closes the process's own breaker. The caller has locked g.mu.
func (g *Gate) goOn() {
	g.own = rules.Breaker{}
	g.update()
}

// update opens or shuts the gate. The caller has locked g.mu.
func (g *Gate) update() {
	open := !g.state.Open.IsZero()
	shut := open || !g.own.Open.IsZero()
	if g.shut.Swap(shut) != shut {
		after := time.Since(g.since).Round(time.Second)
		g.permits, g.since = 0, time.Now()
		switch {
		case open:
			g.Logger.Warn("no message succeeds: only probes begin, and no failure is counted",
				"failed", len(g.state.Streak), "reason", g.state.Reason)
		case shut:
			g.Logger.Warn("no message succeeds in this process, while others succeed: it begins only probes, and "+
				"counts nothing", "failed", len(g.own.Streak), "reason", g.own.Reason)
		default:
			g.Logger.Warn("attempts begin again", "after", after)
		}
	}
	if !shut && !g.own.Stops() {
		g.fetchEnds()
	}
	g.spend(false)
}

// fetch asks for fresh messages, unless they are fetched already. The caller has locked g.mu.
func (g *Gate) fetch() {
	if g.Fresh && g.calm == nil {
		g.calm = make(chan struct{})
		g.Fetches <- g.calm // has room: fetchEnds takes back a request that no session took
	}
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
	g.permits = rules.Probes
	g.spend(false)
	if g.permits == 0 {
		return
	}
	g.fetch()
	time.AfterFunc(settle, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.spend(true)
		g.permits = 0
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
	blind := g.missed && time.Since(g.heard) >= blindly
	g.waiting = slices.DeleteFunc(g.waiting, func(w *Waiting) bool {
		switch {
		case blind && w.First:
		case g.permits > 0 && (all || !g.Fresh || w.Probes+w.Failures == 0):
			g.permits--
			w.Probes++
		default:
			return false
		}
		w.passes <- struct{}{}
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
		g.waiting[at].passes <- struct{}{}
	}
	g.waiting = nil
}
