package consumer

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

const (
	breakerReads     = time.Second            // between two reads of the breaker
	breakerReadsSoon = 250 * time.Millisecond // the same, while messages have failed with no success since
	breakerTimeout   = 500 * time.Millisecond // of a read
	breakerSilence   = 5 * time.Second        // of the store, see spend; and without a success elsewhere, see judgeOwn
	freshFirst       = 300 * time.Millisecond // a failed message waits so long for a fresh one to take its probe
	permitTurns      = 200 * time.Millisecond // the longest that a process leaves a permit to others
)

// atBreaker is a delivery of a consumer with a breaker.
type atBreaker struct {
	progress rules.Progress // of its last step
	probes   int            // how many attempts at it were probes
	failures int            // its failed attempts, counted or not
	first    bool           // its attempt needs no store
	passes   chan struct{}  // while it waits
}

// breakerGate holds back the attempts of a process while the breaker of the queue is open. It also has a breaker of its
// own, by the same rules, for the case that messages fail in this process while others succeed.
type breakerGate struct {
	settings

	// fetches gets a request for fresh messages when a permit is left and all messages here have failed. The request is
	// a channel that closes once no more are needed.
	fetches chan (<-chan struct{})

	shut    atomic.Bool
	again   chan struct{}
	running chan struct{} // taken while run reads the breaker

	mu           sync.Mutex
	began, ended time.Time // the latest begin and end of successes to report; zero: reported
	state        counter.BreakerState
	since        time.Time     // when the gate was shut or opened last
	heard        time.Time     // when the store replied last
	due          time.Time     // when this process asks for the next permit
	fresh        bool          // messages beyond the prefetch can be fetched
	missed       bool          // the store did not reply to the last read
	asked        bool          // a read since the store last replied asked for a permit
	calm         chan struct{} // closed to end the fetch of fresh messages; nil: none are fetched
	waiting      []*atBreaker

	own     rules.Breaker // its streak has the failures since the last success here
	others  time.Time     // when another process was known to have succeeded meanwhile
	permits int           // the attempts that are left of a permit
}

func newBreakerGate(s settings) *breakerGate {
	s.Logger = s.Logger.With("queue", s.Queue)
	return &breakerGate{settings: s, fresh: !s.Ordered, again: make(chan struct{}, 1), heard: time.Now(),
		fetches: make(chan (<-chan struct{}), 1), running: make(chan struct{}, 1)}
}

// progress returns the progress that a step reports to the store. attempt is when the attempt began; zero: it has not.
func (g *breakerGate) progress(attempt time.Time) rules.Progress {
	g.mu.Lock()
	defer g.mu.Unlock()
	return rules.Progress{Breaker: g.Breaker, Patience: g.Patience, Began: g.began, Ended: g.ended, Attempt: attempt,
		Failing: g.own.Stops()}
}

// reported is called after the store has replied to a step with this progress. Each success is reported once: a report
// that the store takes late seems to be of a later success.
func (g *breakerGate) reported(p rules.Progress) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.began.Equal(p.Began) && g.ended.Equal(p.Ended) {
		g.began, g.ended = time.Time{}, time.Time{}
	}
}

// succeeded is called after each attempt that succeeded.
func (g *breakerGate) succeeded(began, ended time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.began = slices.MaxFunc([]time.Time{g.began, began}, time.Time.Compare)
	g.ended = slices.MaxFunc([]time.Time{g.ended, ended}, time.Time.Compare)
	g.goOn()
	if !g.state.Doubt.IsZero() {
		g.wake()
	}
}

// failed is called after the store has replied to the first failure of a message.
func (g *breakerGate) failed(id, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.state.Stops() && !g.own.Stops() && g.own.Lengthen(id, reason, g.Breaker, time.Now()) && g.own.Stops() {
		g.fetch() // all that it has prefetched may fail always, while another message succeeds
	}
}

// wait returns true once the attempt may begin, and false if ctx ended or until came first.
func (g *breakerGate) wait(ctx context.Context, until time.Time, w *atBreaker) (passed bool) {
	g.mu.Lock()
	w.passes = make(chan struct{}, 1)
	g.waiting = append(g.waiting, w)
	if len(g.waiting) == 1 {
		g.wake()
	}
	g.spend(false)
	g.mu.Unlock()
	select {
	case <-w.passes:
		return true
	case <-time.After(time.Until(until)):
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(x *atBreaker) bool { return x == w })
	return len(w.passes) > 0 // meanwhile
}

// run reads the breaker once a second, and when a permit may be due, until ctx is done. Then it reports the last
// success, if the store replies. Each session calls it. One of them reads at a time.
func (g *breakerGate) run(ctx context.Context) {
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
			if p := g.progress(time.Time{}); !g.missed && (!p.Began.IsZero() || !p.Ended.IsZero()) {
				g.read(ctx) // perhaps no other read reports the success
			}
			return
		}
	}
}

// wake makes run read the breaker now.
func (g *breakerGate) wake() {
	select {
	case g.again <- struct{}{}:
	default:
	}
}

// read reads the breaker, and returns the wait until the next read.
func (g *breakerGate) read(ctx context.Context) (wait time.Duration) {
	p := g.progress(time.Time{})
	g.mu.Lock()
	p.Wants = len(g.waiting) > 0 && !g.missed && !time.Now().Before(g.due)
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), breakerTimeout)
	defer cancel()
	state, err := g.Counter.AskBreaker(ctx, g.vhost, g.Queue, p)
	if err == nil {
		g.reported(p)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before, asked, now := g.state, g.asked, time.Now()
	if g.missed, g.asked = err != nil, err != nil && (asked || p.Wants); !g.missed {
		g.state, g.heard = state, now
		// A random wait gives each process its turn. Without it the one nearest to the store would get all permits.
		g.due = now.Add(state.Next.Sub(state.Now) + draw(permitTurns))
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
		return min(max(g.due.Sub(now), time.Millisecond), breakerReads)
	case !open && len(g.state.Streak) > 0:
		return breakerReadsSoon
	}
	return breakerReads
}

// judgeOwn opens the process's own breaker while others succeed, and lets it give permits. The caller has locked g.mu.
func (g *breakerGate) judgeOwn(now time.Time) {
	switch since := g.own.Doubt; {
	case !g.own.Stops() || g.state.Stops():
	case g.state.Count.After(g.state.Now), // an operator wants every failure counted
		!g.missed && now.Sub(since) > breakerSilence && now.Sub(g.others) > breakerSilence: // perhaps only poison is left
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
func (g *breakerGate) goOn() {
	g.own = rules.Breaker{}
	g.update()
}

// update opens or shuts the gate. The caller has locked g.mu.
func (g *breakerGate) update() {
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
func (g *breakerGate) fetch() {
	if g.fresh && g.calm == nil {
		g.calm = make(chan struct{})
		g.fetches <- g.calm // has room: fetchEnds takes back a request that no session took
	}
}

// fetchEnds ends the fetch of fresh messages, if there is one. The caller has locked g.mu.
func (g *breakerGate) fetchEnds() {
	if g.calm == nil {
		return
	}
	close(g.calm)
	g.calm = nil
	select {
	case <-g.fetches:
	default:
	}
}

// permit takes a permit. The caller has locked g.mu.
func (g *breakerGate) permit() {
	g.permits = rules.Probes
	g.spend(false)
	if g.permits == 0 {
		return
	}
	g.fetch()
	time.AfterFunc(freshFirst, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.spend(true)
		g.permits = 0
	})
}

// spend lets waiting deliveries go: all if the gate is open, else one for each permit. Fresh ones go first. If any is
// true, failed ones follow, those with the fewest attempts first. The caller has locked g.mu.
func (g *breakerGate) spend(all bool) {
	slices.SortStableFunc(g.waiting, func(a, b *atBreaker) int {
		return cmp.Or(a.probes-b.probes, a.failures-b.failures)
	})
	if !g.shut.Load() {
		// Those that failed often go between those that did not: many failures in a row would look like the outage that
		// has just ended.
		for i := range g.waiting {
			at := i / 2
			if i%2 == 1 {
				at = len(g.waiting) - 1 - at
			}
			g.waiting[at].passes <- struct{}{}
		}
		g.waiting = nil
		return
	}
	blind := g.missed && time.Since(g.heard) >= breakerSilence
	g.waiting = slices.DeleteFunc(g.waiting, func(w *atBreaker) bool {
		switch {
		case blind && w.first:
		case g.permits > 0 && (all || !g.fresh || w.probes+w.failures == 0):
			g.permits--
			w.probes++
		default:
			return false
		}
		w.passes <- struct{}{}
		return true
	})
}
