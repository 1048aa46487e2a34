package console

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAChangeDuringAQuestion: the page after a change shows it, also if the question was under way when it was made.
func TestAChangeDuringAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paused atomic.Bool
		ask := func(context.Context) (bool, error) {
			was := paused.Load()
			time.Sleep(100 * time.Millisecond)
			return was, nil
		}
		asked := newCached(&Console{base: t.Context(), patience: usualPatience}, ask)
		asked.get(t.Context(), 0)
		time.Sleep(liveEvery)
		asked.begin(0) // by an open page
		time.Sleep(50 * time.Millisecond)
		paused.Store(true)
		asked.stale()
		if a := asked.paint(t.Context(), liveEvery); !a.Value {
			t.Error("the page after the change shows the time before it")
		}
		asked.wait.Wait()
	})
}
