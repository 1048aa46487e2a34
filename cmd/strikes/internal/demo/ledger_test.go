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
	all, err := l.entries()
	if err != nil || !maps.Equal(countEntries(all, entryAttempt), map[string]int{"a": 2}) ||
		!maps.Equal(countEntries(all, entryDone), map[string]int{"b": 200}) || all[0].pid != os.Getpid() {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := (&ledger{os.NewFile(^uintptr(0), "none")}).entries(); err == nil {
		t.Error("a missing ledger is empty")
	}
}

func TestHandledAgain(t *testing.T) {
	killed := map[int]bool{1: true}
	for name, tc := range map[string]struct {
		done []int // pids of the consumers that handled the order, in turn
		want int
	}{
		"once":                               {[]int{2}, 0},
		"once, by one that was killed later": {[]int{1}, 0},
		"again after a kill":                 {[]int{1, 2}, 1},
		"twice without a kill":               {[]int{2, 3}, 0},
		"twice by one that was killed":       {[]int{1, 1}, 1},
		"a kill explains one of two":         {[]int{1, 2, 3}, 1},
	} {
		var all []entry
		for _, pid := range tc.done {
			all = append(all, entry{entryAttempt, "a", pid}, entry{entryDone, "a", pid})
		}
		if got := handledAgain(all, killed)["a"]; got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
