package consumer

import (
	"flag"
	"math/rand/v2"
	"runtime"
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
	simN     = flag.Uint64("sim.n", 80, "how many schedules each simulation plays; .ci/run plays 3,000 or 1,000")
	simDelay = flag.Bool("sim.delay", false, "gives every schedule of TestSimulation that keeps no order delay queues")
	simFrom  = flag.Uint64("sim.from", 1, "the first seed of each simulation")
)

func newMemory() simReplica {
	memory := counter.NewMemory(nil)
	return simReplica{memory, memory}
}

// simKind is a kind of schedule.
type simKind struct {
	stream  uint64 // of random numbers
	plan    func(*rand.Rand) simPlan
	fresh   func() simReplica // if nil, newMemory
	plant   func(*simWorld)   // a fault of the code under test; nil: none
	lanes   bool              // a laneJudge judges them
	audited bool              // by package audit
}

var simPlain = simKind{plan: newSimPlan, audited: true}

// simulate plays the schedule of a seed.
func simulate(t *testing.T, seed uint64, of simKind) *simWorld {
	t.Helper()
	var w *simWorld
	synctest.Test(t, func(*testing.T) {
		rng := rand.New(rand.NewPCG(seed, of.stream))
		if of.fresh == nil {
			of.fresh = newMemory
		}
		w = &simWorld{rng: rng, plan: of.plan(rng), runs: map[string]int{}, wake: make(chan struct{}, 1),
			store: newSimStore(of.fresh)}
		w.faults, w.toDo, w.sieges, w.store.sour = w.plan.faults, w.plan.operations, w.plan.sieges, w.plan.sour
		if of.lanes {
			w.judge = newLaneJudge(w.plan)
		}
		if of.plant != nil {
			of.plant(w)
		}
		w.play()
		if of.lanes {
			w.judge.finish(w)
		}
		if of.audited {
			w.report = audit.Check(w.history)
			w.judge.broken = append(w.judge.broken, w.report.Broken()...)
		}
	})
	return w
}

// eachSchedule plays the schedules that the flags ask for, until five of them break a promise. It prints these, with
// the seeds that repeat them.
func eachSchedule(t *testing.T, of simKind, see func(seed uint64, w *simWorld)) (n uint64) {
	t.Helper()
	repeatable(t)
	from, n := *simFrom, *simN
	if *simSeed != 0 {
		from, n = *simSeed, 1
	}
	for seed, broken := from, 0; seed < from+n && broken < 5; seed++ {
		w := simulate(t, seed, of)
		see(seed, w)
		if len(w.judge.broken) > 0 {
			broken++
			t.Errorf("seed %d (repeat it with -run '^%s$' -sim.seed=%d): %s", seed, t.Name(), seed,
				strings.Join(w.judge.broken, "\n"))
		}
		if len(w.judge.broken) > 0 && broken < 3 || *simSeed != 0 {
			t.Logf("seed %d:\n%s\n%s", seed, w.plan, audit.Story(w.history))
		}
	}
	return n
}

// caught plays at most n schedules of a kind, until it has seen a planted fault often enough.
func caught(t *testing.T, n uint64, enough int, of simKind, see func(*simWorld) int) {
	t.Helper()
	found, seed := 0, uint64(0)
	for seed < n && found < enough {
		seed++
		found += see(simulate(t, seed, of))
	}
	t.Logf("found %d times in %d schedules", found, seed)
	if found < enough {
		t.Errorf("found %d times in %d schedules, want %d at least", found, seed, enough)
	}
}

// repeatable takes the randomness out of the code under test.
func repeatable(t *testing.T) {
	t.Helper()
	saved := draw
	draw = func(d time.Duration) time.Duration { return d / 2 }
	procs := runtime.GOMAXPROCS(1) // one goroutine at a time is all there is to run, and is not to change threads
	t.Cleanup(func() { draw = saved; runtime.GOMAXPROCS(procs) })
}

// TestSimulation plays schedules of several processes, a broker and a store, with faults between any two steps, and
// checks each history against the promises. A schedule that breaks a promise is printed, with the seed that repeats
// it.
func TestSimulation(t *testing.T) {
	unbegun, isolated, most := 0, 0, 0
	eachSchedule(t, simPlain, func(_ uint64, w *simWorld) {
		unbegun += len(w.report.Unbegun)
		for _, e := range w.history {
			if e.Kind == audit.Written && e.Code == audit.ReplyBegun {
				isolated++
			}
		}
		most = max(most, w.report.MostRuns)
	})
	t.Logf("%d isolated attempts; %d crashes counted of processes that were killed between BEGUN and the handler; a "+
		"message ran %d times at most", isolated, unbegun, most)
}

// TestSimulationCatchesCrashesBeforeTheHandler shows that the audit finds a crash of an attempt whose handler was not
// to begin: with a store that counts one from START on, kills before the handler are counted.
func TestSimulationCatchesCrashesBeforeTheHandler(t *testing.T) {
	repeatable(t)
	eager := simPlain
	eager.fresh = func() simReplica {
		memory := counter.NewMemory(nil)
		return simReplica{eagerStore{memory}, memory}
	}
	caught(t, 500, 10, eager, func(w *simWorld) int { return w.report.Violations["begun"].Count })
}

// TestSimulationRepeats shows that a seed always gives the same schedule. With the race detector the scheduler of Go is
// random: it may run either of two goroutines first that wake at the same moment. So that build cannot show it.
func TestSimulationRepeats(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes Go's scheduler random")
	}
	repeatable(t)
	for seed := uint64(1); seed <= 200; seed++ {
		wantRepeated(t, seed, simPlain, simulate(t, seed, simPlain))
	}
}

// wantRepeated plays a schedule again, and fails the test if the two differ.
func wantRepeated(t *testing.T, seed uint64, of simKind, w *simWorld) {
	t.Helper()
	if once, again := audit.Story(w.history), audit.Story(simulate(t, seed, of).history); once != again {
		t.Fatalf("seed %d gave\n%s\nand then\n%s", seed, once, again)
	}
}

// TestSimulationCatchesPlainCounting shows that the audit can fail: a counter that counts requests instead of attempts
// breaks the limit in a large share of schedules.
func TestSimulationCatchesPlainCounting(t *testing.T) {
	repeatable(t)
	plain := simPlain
	plain.fresh = newPlainCount
	const n = 100
	caught(t, n, n/6, plain, func(w *simWorld) int {
		return min(1, w.report.Violations["causes"].Count+w.report.Violations["bound"].Count)
	})
}
