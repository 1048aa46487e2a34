package integration

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/deadletter"
)

// TestReplaysTogether begins replays of one queue at the same moment. One has it. The others find it taken, or the
// messages that the first left.
func TestReplaysTogether(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		const n, rounds, replays = 30, 8, 3
		for range rounds {
			q := withDeadLetters(t, queue, n)
			var results [replays]deadletter.Result
			var errs [replays]error
			var all sync.WaitGroup
			begin := make(chan struct{})
			for i := range replays {
				all.Go(func() {
					<-begin
					results[i], errs[i] = q.Replay(t.Context(), deadletter.Replay{Window: 5})
				})
			}
			close(begin)
			all.Wait()
			done, won := 0, 0
			for i, err := range errs {
				done += results[i].Done
				switch {
				case err == nil:
					won++
				case !errors.Is(err, deadletter.ErrBusy) || results[i].Done != 0:
					t.Errorf("%+v, %v", results[i], err)
				}
			}
			if won == 0 || done != n {
				t.Fatalf("%d of %d went on, %d of %d replayed: %v", won, replays, done, n, errs)
			}
			if diff := cmp.Diff(numbered("m", n), ids(getAll(t, queue))); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}
