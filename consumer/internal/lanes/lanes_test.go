package lanes

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// renewals is a store that counts how often it renewed blocked lanes.
type renewals struct {
	Store
	n int
}

func (r *renewals) NextBlocked(context.Context, string, string, counter.BlockedPage) (counter.BlockedPage, error) {
	r.n++
	return counter.BlockedPage{Lanes: []string{counter.LaneHash("a")}, Last: true}, nil
}

// TestKeepWithoutDeliveries: a session that gets none keeps the store from forgetting blocked lanes. It does not trust
// the lanes that it reads, because another session may own them.
func TestKeepWithoutDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store renewals
		h := New(&store, "/", "q", "o", slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Hour)
		defer cancel()
		h.Keep(ctx)
		if store.n < 24 || h.IsFree("b") {
			t.Errorf("%d renewals in 25 hours, want 24; a lane is known to be free: %v", store.n, h.IsFree("b"))
		}
	})
}
