package counter

import (
	"errors"
	"fmt"
	"testing"
)

// TestWriteOff: dead letters are written off once, whoever asks, and never more than there are.
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
