package consumer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

// askedStore answers only the reads of a breaker.
type askedStore struct {
	*counter.Memory
	ask func(context.Context, rules.Progress) (counter.BreakerState, error)
}

func (s askedStore) AskBreaker(ctx context.Context, _, _ string, a rules.Progress) (counter.BreakerState, error) {
	return s.ask(ctx, a)
}

// newGate returns a gate that logs nothing and fetches nothing.
func newGate(ask func(context.Context, rules.Progress) (counter.BreakerState, error)) *breakerGate {
	return newBreakerGate(settings{Consumer: Consumer{Counter: askedStore{ask: ask}, Breaker: 8, Ordered: true,
		Logger: slog.New(slog.DiscardHandler)}})
}

// countingStore has a closed breaker. An operator wants every failure counted for a time.
type countingStore struct {
	until time.Time
}

func (s countingStore) ask(context.Context, rules.Progress) (counter.BreakerState, error) {
	return counter.BreakerState{Now: time.Now(), Breaker: rules.Breaker{Count: s.until}}, nil
}

// TestCountedProcessGoesOn: a process in which everything fails stops alone, but not while an operator wants every
// failure counted.
func TestCountedProcessGoesOn(t *testing.T) {
	for name, counted := range map[string]time.Duration{"not counted": 0, "counted": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(countingStore{time.Now().Add(counted)}.ask)
				go g.run(t.Context())
				shut := false
				for i := range 50 {
					g.failed(fmt.Sprint(i), "refused")
					time.Sleep(100 * time.Millisecond)
					shut = shut || g.shut.Load()
				}
				if want := counted == 0; shut != want {
					t.Errorf("the process stopped: %t, want %t", shut, want)
				}
			})
		})
	}
}

// TestStoppedProcessWarns: a process that stopped alone warns when it stops, and when it goes on.
func TestStoppedProcessWarns(t *testing.T) {
	for why, end := range map[string]func(*breakerGate){
		"a message succeeds": func(g *breakerGate) { g.succeeded(time.Now(), time.Now()) },
		"an operator wants every failure counted": func(g *breakerGate) {
			g.state.Now, g.state.Count = time.Now(), time.Now().Add(time.Minute)
			g.judgeOwn(time.Now())
		},
		"no message succeeds in other processes either": func(g *breakerGate) {
			time.Sleep(breakerSilence)
			g.judgeOwn(time.Now())
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			g := newGate(countingStore{}.ask)
			g.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			for i := range 8 {
				g.failed(fmt.Sprint(i), "refused")
			}
			time.Sleep(rules.DoubtLasts)
			g.judgeOwn(time.Now())
			if !g.shut.Load() || strings.Count(log.String(), "level=WARN") != 1 {
				t.Errorf("stopped: %t, logged %q", g.shut.Load(), &log)
			}
			log.Reset()
			end(g)
			if g.shut.Load() || strings.Count(log.String(), "\n") != 1 ||
				!strings.Contains(log.String(), `level=WARN msg="attempts begin again"`) {
				t.Errorf("%s: still stopped: %t, logged %q", why, g.shut.Load(), &log)
			}
		})
	}
}

// memoryStore has the breaker of a queue.
type memoryStore struct {
	mu sync.Mutex
	b  rules.Breaker
}

func (s *memoryStore) ask(_ context.Context, a rules.Progress) (counter.BreakerState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	permitted, _ := s.b.Answer(a, time.Now())
	return counter.BreakerState{Now: time.Now(), Breaker: s.b, Permitted: permitted}, nil
}

func (s *memoryStore) set(b rules.Breaker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b = b
}

// TestLastSuccessIsReported: no read follows a success that comes just before the end of Run.
func TestLastSuccessIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{}
		g := newGate(store.ask)
		ctx, stop := context.WithCancel(t.Context())
		go g.run(ctx)
		time.Sleep(breakerReads / 2)
		// another process, since the last read:
		store.set(rules.Breaker{Streak: []rules.StreakFailure{{At: time.Now()}}, Doubt: time.Now()})
		time.Sleep(time.Millisecond)
		g.succeeded(time.Now(), time.Now())
		stop()
		synctest.Wait()
		if b, _ := store.ask(t.Context(), rules.Progress{}); !b.Doubt.IsZero() {
			t.Errorf("the queue is still in doubt: %+v", b)
		}
	})
}

// TestASessionEndsBesideAnother: with partitions, each session on the queue runs the gate. One that ends waits for none
// of the others.
func TestASessionEndsBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(new(memoryStore).ask)
		go g.run(t.Context())
		synctest.Wait()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { g.run(ctx); close(ended) }()
		synctest.Wait()
		stop()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("the session on the other partition is still waited for")
		}
	})
}

// deafStore replies once.
type deafStore struct{ asked *int }

func (s deafStore) ask(ctx context.Context, _ rules.Progress) (counter.BreakerState, error) {
	if *s.asked++; *s.asked == 1 {
		return counter.BreakerState{Now: time.Now()}, nil
	}
	<-ctx.Done()
	return counter.BreakerState{}, ctx.Err()
}

// TestAStopDoesNotHang: the report of the last success waits for one reply at most, and for none if the store did not
// reply before.
func TestAStopDoesNotHang(t *testing.T) {
	for name, after := range map[string]time.Duration{"it replied before": breakerReads / 2,
		"it did not": breakerReads + breakerTimeout} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			g := newGate(deafStore{&asked}.ask)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { g.run(ctx); close(ended) }()
			time.Sleep(after)
			g.succeeded(time.Now(), time.Now())
			stop()
			began := time.Now()
			<-ended
			if waited := time.Since(began); waited > breakerTimeout || asked != 2 {
				t.Errorf("%s: %d reads, the stop took %v", name, asked, waited)
			}
		})
	}
}

// TestFetchOfTheSessionBefore: a permit that comes after a session asks no later one for messages beyond its prefetch.
func TestFetchOfTheSessionBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(new(memoryStore).ask)
		g.fresh = true
		g.own.Doubt = time.Now() // else the first read ends the fetch
		g.fetch()
		go g.run(t.Context())
		synctest.Wait()
		select {
		case <-g.fetches:
			t.Error("the next session is asked")
		default:
		}
		g.fetch()
		select {
		case <-g.fetches:
		default:
			t.Error("its own permit does not ask it")
		}
	})
}

// permitOnce gives a permit once all goroutines wait.
func permitOnce(g *breakerGate) {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.permit()
}

// TestNoFreshMessages: if no fresh messages can be fetched, permits go to failed ones without a wait.
func TestNoFreshMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(nil)
		g.shut.Store(true)
		began := time.Now()
		go permitOnce(g)
		if !g.wait(t.Context(), began.Add(time.Minute), &atBreaker{failures: 1}) || time.Since(began) > 0 {
			t.Errorf("a failed message took its permit after %v", time.Since(began))
		}
		if len(g.fetches) > 0 {
			t.Error("it asks for fresh messages")
		}
	})
}

// TestFreshMessagesGoFirst: a permit waits for fresh messages before it goes to failed ones.
func TestFreshMessagesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(nil)
		g.fresh = true
		g.shut.Store(true)
		began := time.Now()
		go permitOnce(g)
		if w := (atBreaker{failures: 1}); !g.wait(t.Context(), began.Add(time.Minute), &w) || w.probes != 1 {
			t.Fatal("the attempt is no probe")
		}
		if took := time.Since(began); took != freshFirst {
			t.Errorf("a failed message took its permit after %v, want %v", took, freshFirst)
		}
	})
}

// lossyStore takes each request, and loses replies.
type lossyStore struct {
	*memoryStore
	asked int
	of    int // of so many replies in a row, one comes
}

func (s *lossyStore) ask(ctx context.Context, a rules.Progress) (counter.BreakerState, error) {
	b, err := s.memoryStore.ask(ctx, a)
	if s.asked++; s.asked%s.of > 0 {
		return counter.BreakerState{}, context.DeadlineExceeded
	}
	return b, err
}

// TestALostPermit: one or two replies in a row are lost, in step with the permits. A message is tried all the same.
func TestALostPermit(t *testing.T) {
	for _, tc := range []struct{ first, of int }{{0, 2}, {1, 2}, {0, 3}, {1, 3}, {2, 3}} {
		synctest.Test(t, func(t *testing.T) {
			now := time.Now()
			opened := rules.Breaker{Doubt: now, Open: now, Next: now.Add(rules.FirstPermit)}
			store := &lossyStore{&memoryStore{b: opened}, tc.first, tc.of}
			g := newGate(store.ask)
			go g.run(t.Context())
			time.Sleep(3*breakerReads + time.Millisecond) // it is shut then
			for range 20 {
				began := time.Now()
				passed := g.wait(t.Context(), began.Add(time.Minute), &atBreaker{failures: 1})
				if took := time.Since(began); !passed || took > 3*rules.LaterPermits {
					t.Errorf("a probe: %t, after %v", passed, took)
				}
			}
		})
	}
}

// farStore delays each request and each reply by away.
type farStore struct {
	*memoryStore
	away time.Duration
}

func (s farStore) ask(ctx context.Context, a rules.Progress) (counter.BreakerState, error) {
	time.Sleep(s.away)
	defer time.Sleep(s.away)
	return s.memoryStore.ask(ctx, a)
}

// TestPermitsGoAround: the process nearest to the store does not get all permits.
func TestPermitsGoAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		store := &memoryStore{b: rules.Breaker{Doubt: now, Open: now, Next: now.Add(rules.FirstPermit)}}
		ctx, stop := context.WithCancel(t.Context())
		var probes [3]int
		var waiting sync.WaitGroup
		for i, away := range []time.Duration{0, 2 * time.Millisecond, 5 * time.Millisecond} {
			g := newGate(farStore{store, away}.ask)
			waiting.Go(func() { g.run(ctx) })
			waiting.Go(func() {
				time.Sleep(breakerReads / 2) // it is shut then
				for g.wait(ctx, now.Add(time.Hour), &atBreaker{failures: 1}) {
					probes[i]++
				}
			})
		}
		time.Sleep(10 * time.Minute) // about 200 permits
		stop()
		waiting.Wait()
		if slices.Min(probes[:]) < 30*rules.Probes {
			t.Errorf("probes of the three processes: %v", probes)
		}
	})
}
