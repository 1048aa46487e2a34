package breaker

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

// countingStore has a closed breaker. An operator wants every failure counted for a time.
type countingStore struct {
	until time.Time
}

func (s countingStore) AskBreaker(context.Context, string, string, counter.Progress, bool) (counter.BreakerState, error) {
	return counter.BreakerState{Now: time.Now(), Breaker: rules.Breaker{Count: s.until}}, nil
}

// TestCountedProcessGoesOn: a process in which everything fails stops alone, but not while an operator wants every
// failure counted.
func TestCountedProcessGoesOn(t *testing.T) {
	for name, counted := range map[string]time.Duration{"not counted": 0, "counted": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := New(Options{Store: countingStore{time.Now().Add(counted)}, Queue: "orders", Breaker: 8,
					Logger: slog.New(slog.DiscardHandler)})
				go g.Run(t.Context())
				shut := false
				for range 50 {
					g.Failed(true, false)
					time.Sleep(100 * time.Millisecond)
					shut = shut || g.Shut()
				}
				if want := counted == 0; shut != want {
					t.Errorf("the process stopped: %t, want %t", shut, want)
				}
			})
		})
	}
}
