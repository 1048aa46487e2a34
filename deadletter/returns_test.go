package deadletter

import (
	"context"
	"errors"
	"testing"
)

// keptReturns is a Returns in memory.
type keptReturns struct {
	highest int64
	fails   error
	denied  error // of a note
}

func (k *keptReturns) Returns(context.Context, string, string) (int64, error) {
	return k.highest, k.fails
}

func (k *keptReturns) NoteReturns(_ context.Context, _, _ string, n int64) error {
	if k.denied != nil {
		return k.denied
	}
	k.highest = n
	return k.fails
}

// TestWear: once a read has seen a message near its limit, later ones are refused before anything is delivered, until
// the messages are gone.
func TestWear(t *testing.T) {
	const million = 1_000_000
	down := errors.New("the store is down")
	for _, tt := range []struct {
		name    string
		limit   int64
		before  int64
		ready   int
		fails   error
		denies  bool // the store takes no note
		refused bool
		seen    int64
		whole   bool
		after   int64
	}{
		{"nothing known", million, 0, 5, nil, false, false, 3, true, 0},
		{"half of the limit is near", million, 0, 5, nil, false, false, million/2 - 1, true, million / 2},
		{"near", million, million / 2, 5, nil, false, true, 0, false, million / 2},
		{"far", million, million / 4, 5, nil, false, false, million / 4, true, million/4 + 1},
		{"a part was read", million, million / 3, 5, nil, false, false, 7, false, million / 3},
		{"all of it was read, and the worn messages are gone", million, million / 3, 5, nil, false, false, 7, true, 0},
		{"empty, so later messages are others", million, million / 2, 0, nil, false, false, 0, true, 0},
		{"the store is down", million, million / 2, 5, down, false, false, 0, true, million / 2},
		{"by force, below the limit", 20, 19, 5, nil, false, false, 19, true, 20},
		{"by force, at the limit", 20, 20, 5, nil, false, true, 0, false, 20},
		{"by force, and the store is down", 20, 0, 5, down, false, true, 0, false, 0},
		{"by force, and the store takes no note, so the next one may delete", 20, 0, 5, nil, true, true, 0, false, 0},
		{"far, and the store takes no note", million, 0, 5, nil, true, false, 0, false, 0},
		{"no limit", 0, 1 << 40, 5, nil, false, false, 0, true, 1 << 40},
	} {
		store := &keptReturns{highest: tt.before, fails: tt.fails}
		if tt.denies {
			store.denied = errors.New("NOPERM")
		}
		w := &wear{q: &Queue{Name: "q.dlq", Returns: store, Handling: Handling{Limit: tt.limit, Take: true, Hold: true}}}
		err := w.begin(t.Context(), "/", tt.ready)
		if refused := errors.Is(err, ErrWorn); refused != tt.refused || refused != errors.Is(err, ErrUnsafe) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil && tt.ready > 0 && tt.fails == nil {
			w.seen = tt.seen
			w.end(t.Context(), "/", tt.whole)
		}
		if store.highest != tt.after {
			t.Errorf("%s: %d is noted, want %d", tt.name, store.highest, tt.after)
		}
	}
}
