package consumer

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/audit"
)

var (
	simSeed = flag.Uint64("sim.seed", 0, "the one schedule that TestSimulation plays and prints; if zero, it plays "+
		"-sim.n of them")
	simN     = flag.Uint64("sim.n", 500, "the number of schedules that TestSimulation plays")
	simDelay = flag.Bool("sim.delay", false, "gives every schedule of TestSimulation that keeps no order delay queues")
	simFrom  = flag.Uint64("sim.from", 1, "the first seed of TestSimulation")
)

func newMemory() simCounting { return counter.NewMemory(nil) }

// simulate plays the schedule of a seed.
func simulate(t *testing.T, seed uint64, fresh func() simCounting) (simPlan, []audit.Event) {
	t.Helper()
	var w *simWorld
	synctest.Test(t, func(*testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w = &simWorld{rng: rng, plan: newSimPlan(rng), runs: map[string]int{}, wake: make(chan struct{}, 1),
			store: newSimStore(fresh)}
		w.faults, w.toDo, w.sieges, w.store.sour = w.plan.faults, w.plan.operations, w.plan.sieges, w.plan.sour
		w.play()
	})
	return w.plan, w.history
}

// repeatable takes what is random out of the code under test.
func repeatable(t *testing.T) {
	t.Helper()
	saved := draw
	draw = func(d time.Duration) time.Duration { return d / 2 }
	procs := runtime.GOMAXPROCS(1) // one goroutine at a time is all there is to run, and is not to change threads
	t.Cleanup(func() { draw = saved; runtime.GOMAXPROCS(procs) })
}

// TestSimulation plays schedules of several processes, a broker and a store, with faults between any two steps, and
// holds each history against what is promised. A schedule that breaks a promise is printed, with the seed that repeats
// it.
func TestSimulation(t *testing.T) {
	repeatable(t)
	from, n := *simFrom, *simN
	if *simSeed != 0 {
		from, n = *simSeed, 1
	}
	broken, unbegun, isolated, most := 0, 0, 0, 0
	for seed := from; seed < from+n && broken < 5; seed++ {
		plan, history := simulate(t, seed, newMemory)
		report := audit.Check(history)
		unbegun += len(report.Unbegun)
		for _, e := range history {
			if e.Kind == audit.Written && e.Code == audit.ReplyBegun {
				isolated++
			}
		}
		most = max(most, report.MostRuns)
		if found := report.Broken(); len(found) > 0 {
			broken++
			t.Errorf("seed %d (repeat it with -run '^TestSimulation$' -sim.seed=%d):\n%s\n%s\n%s",
				seed, seed, plan, audit.Story(history), strings.Join(found, "\n"))
		} else if *simSeed != 0 {
			t.Logf("seed %d:\n%s\n%s", seed, plan, audit.Story(history))
		}
	}
	t.Logf("%d isolated attempts; %d crashes counted of processes that were killed between BEGUN and the handler; a "+
		"message ran %d times at most", isolated, unbegun, most)
}

// TestSimulationCatchesCrashesBeforeTheHandler shows that the audit finds a crash of an attempt whose handler was not
// to begin: with a store that counts one from START on, kills before the handler are counted.
func TestSimulationCatchesCrashesBeforeTheHandler(t *testing.T) {
	repeatable(t)
	found := 0
	for seed := uint64(1); seed <= 500; seed++ {
		_, history := simulate(t, seed, func() simCounting { return eagerStore{counter.NewMemory(nil)} })
		found += audit.Check(history).Violations["begun"].Count
	}
	t.Logf("%d crashes were counted of attempts whose handlers were not to begin", found)
	if found < 10 {
		t.Error("that is hardly a test of the audit")
	}
}

// TestSimulationRepeats shows that a seed always gives the same schedule. With the race detector the scheduler of Go is
// random: it may run either of two goroutines first that wake at the same moment. So that build cannot show it.
func TestSimulationRepeats(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes Go's scheduler random")
	}
	repeatable(t)
	for seed := uint64(1); seed <= 200; seed++ {
		_, history := simulate(t, seed, newMemory)
		_, repeated := simulate(t, seed, newMemory)
		if once, again := audit.Story(history), audit.Story(repeated); once != again {
			t.Fatalf("seed %d gave\n%s\nand then\n%s", seed, once, again)
		}
	}
}

// TestSimulationCatchesPlainCounting shows that the audit can fail: a counter that counts requests instead of attempts
// breaks the limit in a large share of schedules.
func TestSimulationCatchesPlainCounting(t *testing.T) {
	repeatable(t)
	const n = 100
	over := 0
	rules := map[string]int{}
	for seed := uint64(1); seed <= n; seed++ {
		_, history := simulate(t, seed, newPlainCount)
		broke := false
		for rule, found := range audit.Check(history).Violations {
			rules[rule] += found.Count
			broke = broke || found.Count > 0 && slices.Contains([]string{"causes", "bound"}, rule)
		}
		if broke {
			over++
		}
	}
	t.Logf("%d of %d schedules broke their limit: %v", over, n, rules)
	if over < n/6 {
		t.Errorf("%d of %d schedules broke their limit; that is hardly a test of the audit", over, n)
	}
}
