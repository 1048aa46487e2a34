package counter

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestWriteOff: dead letters are written off once, whichever operator asks, and never more than there are.
func TestWriteOff(t *testing.T) {
	for _, c := range servers(t) {
		for i := range 5 {
			if _, err := c.Fail(t.Context(), attempt(message(fmt.Sprint(i)), "a"), reject); err != nil {
				t.Fatal(err)
			}
		}
		a := c.Admin()
		if err := a.NoteRemoved(t.Context(), "/", "orders", []Message{message("0")}); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			n, before int64
			refused   bool
		}{{3, 0, false}, {1, 0, true}, {2, 3, true}, {1, 3, false}, {1, 4, true}} {
			if err := a.WriteOff(t.Context(), "/", "orders", step.n, step.before); errors.Is(err, ErrWriteOff) != step.refused || !step.refused && err != nil {
				t.Errorf("%+v: %v", step, err)
			}
		}
		got, err := a.Tombstones(t.Context(), "/", "orders")
		if err != nil || got.Count != 5 || got.Removed != 1 || got.WrittenOff != 4 {
			t.Errorf("%+v, %v", got, err)
		}
		if err := a.WriteOff(t.Context(), "/", "orders", 0, 4); err == nil {
			t.Error("none was written off")
		}
		if err := a.WriteOff(t.Context(), "/", "none", 1, 0); !errors.Is(err, ErrWriteOff) {
			t.Errorf("of a queue without dead letters: %v", err)
		}
	}
}

// TestWriteOffReturned: dead letters that were written off, come back and are removed are subtracted once, in whatever order the others
// are removed. Those that die after the write-off change nothing.
func TestWriteOffReturned(t *testing.T) {
	lost, held, later := []string{"0", "1"}, []string{"2", "3", "4"}, []string{"5", "6"}
	tests := map[string]struct {
		removed    [][]string
		writtenOff int64
	}{
		"none comes back":           {[][]string{held, later}, 2},
		"one, after the others":     {[][]string{held, later, lost[:1]}, 1},
		"one, before the others":    {[][]string{lost[:1], held, later}, 1},
		"all, among the others":     {[][]string{later, held[:2], lost, held[2:]}, 0},
		"all, reported twice":       {[][]string{held, lost, lost, held}, 0},
		"some, the others are left": {[][]string{lost, held[:1]}, 2},
	}
	for name, tc := range tests {
		for i, c := range servers(t) {
			queue := fmt.Sprintf("orders %s", name)
			die := func(ids ...string) {
				for _, id := range ids {
					m := message(id)
					m.Queue = queue
					if _, err := c.Fail(t.Context(), attempt(m, "a"), reject); err != nil {
						t.Fatal(err)
					}
				}
			}
			die(append(lost[:2:2], held...)...)
			time.Sleep(2 * time.Millisecond) // the store's clock has milliseconds
			a := c.Admin()
			if err := a.WriteOff(t.Context(), "/", queue, int64(len(lost)), 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Millisecond)
			die(later...)
			seen := map[string]bool{}
			for _, ids := range tc.removed {
				for _, id := range ids {
					seen[id] = true
					if err := a.NoteRemoved(t.Context(), "/", queue, []Message{message(id)}); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, err := a.Tombstones(t.Context(), "/", queue)
			if err != nil || got.Count != 7 || got.Removed != int64(len(seen)) || got.WrittenOff != tc.writtenOff {
				t.Errorf("%s, store %d: %+v, %v; want %d written off", name, i, got, err, tc.writtenOff)
			}
		}
	}
}

// TestWriteOffRenewed: a dead letter that was written off comes back to its consumer, which renews the tombstone. Its removal still
// shows that it was not lost.
func TestWriteOffRenewed(t *testing.T) {
	for i, c := range servers(t) {
		a := c.Admin()
		if _, err := c.Fail(t.Context(), attempt(message("0"), "a"), reject); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond) // the store's clock has milliseconds
		if err := a.WriteOff(t.Context(), "/", "orders", 1, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
		if r, err := c.Start(t.Context(), attempt(message("0"), "b"), ModeShared, 4); err != nil || r.Verdict != VerdictExhausted {
			t.Fatal(r.Verdict, err)
		}
		if err := a.NoteRemoved(t.Context(), "/", "orders", []Message{message("0")}); err != nil {
			t.Fatal(err)
		}
		got, err := a.Tombstones(t.Context(), "/", "orders")
		if err != nil || got.Count != 1 || got.Removed != 1 || got.WrittenOff != 0 {
			t.Errorf("store %d: %+v, %v", i, got, err)
		}
	}
}
