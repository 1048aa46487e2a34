package partitions

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/counter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted deals the partitions that the test sets.
type scripted struct {
	mu    sync.Mutex
	mine  []int
	err   error
	reads []counter.DealRead
}

func (s *scripted) Deal(_ context.Context, _, _ string, r counter.DealRead) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, r)
	return s.mine, s.err
}

func (s *scripted) set(mine []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mine, s.err = mine, err
}

func TestFollowerFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{mine: []int{1, 3}}
		f := New(store, "/", "orders", counter.DealRead{Token: "a", Partitions: 4}, slog.New(slog.DiscardHandler))
		want := func(when string, want ...int) {
			t.Helper()
			synctest.Wait()
			if mine, known, _ := f.Current(); !known || !slices.Equal(mine, want) {
				t.Errorf("%s: %v, %v, want %v", when, mine, known, want)
			}
		}
		if _, known, _ := f.Current(); known {
			t.Error("a deal is known before the first read")
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.Follow(ctx) }()
		want("at first", 1, 3)

		store.set([]int{1}, nil)
		_, _, changed := f.Current()
		time.Sleep(1100 * time.Millisecond)
		want("a second later", 1)
		select {
		case <-changed:
		default:
			t.Error("the change was not announced")
		}

		store.set(nil, errors.New("away"))
		time.Sleep(28 * time.Second)
		want("while the store is away", 1)
		time.Sleep(4 * time.Second)
		want("when it was away for 30 s", 0, 1, 2, 3)

		store.set([]int{1}, nil)
		time.Sleep(1100 * time.Millisecond)
		want("when it is back", 1)

		stop()
		<-done
		f.Leave(t.Context())
		store.mu.Lock()
		defer store.mu.Unlock()
		if last := store.reads[len(store.reads)-1]; !last.Left || last.Token != "a" {
			t.Errorf("the last read: %+v", last)
		}
		if second := store.reads[1]; !slices.Equal(second.Consumes, []int{1, 3}) {
			t.Errorf("the second read says that it consumes %v, want 1 and 3", second.Consumes)
		}
	})
}

// TestFollowerKeepsQuietBetweenSessions: without a connection to the broker the deal is not read, so that the lease
// ends.
func TestFollowerKeepsQuietBetweenSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{mine: []int{0}}
		f := New(store, "/", "orders", counter.DealRead{Token: "a", Partitions: 2}, slog.New(slog.DiscardHandler))
		for range 2 {
			ctx, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			f.Follow(ctx)
			stop()
			time.Sleep(time.Minute)
		}
		if len(store.reads) != 4 {
			t.Errorf("%d reads in two sessions of 1.5 s, want 4", len(store.reads))
		}
	})
}
