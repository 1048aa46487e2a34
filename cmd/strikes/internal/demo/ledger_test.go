package demo

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
)

func TestLedger(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	l, err := newLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer l.file.Close()
	if left, err := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 || err != nil {
		t.Errorf("it can be found: %q, %v", left, err)
	}
	for i, want := range []int{1, 2} {
		if n, err := l.enter(entryAttempt, "a"); n != want || err != nil {
			t.Errorf("attempt %d: %d, %v", i, n, err)
		}
	}
	var many errgroup.Group
	for range 4 {
		many.Go(func() error {
			for range 50 {
				if _, err := (&ledger{l.file}).enter(entryDone, "b"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := many.Wait(); err != nil {
		t.Fatal(err)
	}
	counts, err := l.counts()
	if err != nil || !maps.Equal(counts[entryAttempt], map[string]int{"a": 2}) || !maps.Equal(counts[entryDone], map[string]int{"b": 200}) {
		t.Errorf("%v, %v", counts, err)
	}
	if _, err := (&ledger{os.NewFile(^uintptr(0), "none")}).counts(); err == nil {
		t.Error("a missing ledger is empty")
	}
}
