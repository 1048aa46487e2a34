package counter_test

import (
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/storetest"
)

// TestStore runs the test of a Store on those of this package.
func TestStore(t *testing.T) {
	for name, open := range map[string]func(testing.TB) counter.Store{
		"memory": func(testing.TB) counter.Store { return counter.NewMemoryStore() },
		"redis": func(t testing.TB) counter.Store {
			if url := os.Getenv("REDIS_URL"); url != "" {
				return counter.StoreOf(counter.DialTest(t, url))
			}
			return counter.StoreOf(counter.DialTest(t, "redis://"+ticking(t).Addr()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, open)
		})
	}
}

// ticking is a miniredis whose TTLs elapse.
func ticking(t testing.TB) *miniredis.Miniredis {
	server, done := miniredis.RunT(t), make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		tick, last := time.NewTicker(20*time.Millisecond), time.Now()
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				server.FastForward(now.Sub(last))
				last = now
			}
		}
	}()
	return server
}
