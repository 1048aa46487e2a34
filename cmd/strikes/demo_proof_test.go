package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

func TestLedger(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	l, err := newLedger()
	need(t, err)
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
	need(t, many.Wait())
	for what, want := range map[string]map[string]int{entryAttempt: {"a": 2}, entryDone: {"b": 200}} {
		if got, err := l.counts(what); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	if _, err := (&ledger{os.NewFile(^uintptr(0), "none")}).counts(entryDone); err == nil {
		t.Error("a missing ledger is empty")
	}
}

// goodEvidence is the evidence of a demo that went well.
func goodEvidence() evidence {
	e := evidence{
		attempts: map[string]int{}, done: map[string]int{}, dead: []string{"order-07 rejected from q"},
		counted: []string{"order-07 dead-lettered, 4 failures, 0 crashes", "order-04 done, 2 failures, 0 crashes",
			"order-12 done, 0 failures, 1 crash"},
	}
	for _, o := range demoOrders() {
		e.attempts[o.ID], e.done[o.ID] = 1, 1
	}
	e.attempts["order-04"], e.attempts["order-07"], e.attempts["order-12"] = 3, 4, 4
	delete(e.done, "order-07")
	return e
}

// judged is the verdict on some evidence.
func judged(e evidence) (v verdict) {
	v.Queue = "q"
	v.judge(demoOrders(), e)
	return v
}

func TestVerdictOfGoodEvidence(t *testing.T) {
	v := judged(goodEvidence())
	var out strings.Builder
	if v.print(&out); !v.OK || len(v.Checks) != 5 ||
		!strings.Contains(out.String(), "20 orders: 19 handled, 1 dead-lettered, none lost.") {
		t.Errorf("ok %v:\n%s", v.OK, &out)
	}
}

func TestVerdictFindsEachFault(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(e *evidence)
		check string // the one that fails
	}{
		{"an order is left", func(e *evidence) { e.left = 1 }, "orders still in the queue"},
		{"no dead letter", func(e *evidence) { e.dead = nil }, "orders in the dead-letter queue"},
		{"dead-lettered twice", func(e *evidence) {
			e.dead = append(e.dead, e.dead[0])
		}, "orders in the dead-letter queue"},
		{"the wrong one", func(e *evidence) { e.dead[0] = "order-08 rejected from q" }, "orders in the dead-letter queue"},
		{"by a limit of the broker's", func(e *evidence) {
			e.dead[0] = "order-07 delivery_limit from q"
		}, "orders in the dead-letter queue"},
		{"lost", func(e *evidence) { delete(e.done, "order-01") }, "orders handled to the end"},
		{"handled twice", func(e *evidence) { e.done["order-01"] = 2 }, "orders handled to the end"},
		{"the poison was handled", func(e *evidence) { e.done["order-07"] = 1 }, "orders handled to the end"},
		{"one attempt too few", func(e *evidence) { e.attempts["order-07"] = 3 }, "attempts of the handler"},
		{"one attempt too many", func(e *evidence) { e.attempts["order-19"] = 2 }, "attempts of the handler"},
		{"a foreign order", func(e *evidence) {
			delete(e.attempts, "order-01")
			e.attempts["order-99"] = 1
		}, "attempts of the handler"},
		{"a crash is counted for a neighbour", func(e *evidence) {
			e.counted = append(e.counted, "order-13 done, 0 failures, 1 crash")
		}, "counts"},
		{"a failure is counted as a crash", func(e *evidence) {
			e.counted[0] = "order-07 dead-lettered, 3 failures, 1 crash"
		}, "counts"},
		{"the flaky one is forgotten", func(e *evidence) { e.counted = e.counted[:1:1] }, "counts"},
		{"the killer is not found", func(e *evidence) { e.counted = e.counted[:2] }, "counts"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := goodEvidence()
			tt.spoil(&e)
			v := judged(e)
			var failed []string
			for _, c := range v.Checks {
				if !c.OK {
					failed = append(failed, c.What)
				}
			}
			if v.OK || strings.Join(failed, ", ") != tt.check {
				t.Errorf("ok %v, failed: %q, want %q", v.OK, failed, tt.check)
			}
			var out strings.Builder
			v.print(&out)
			if !strings.Contains(out.String(), "WRONG "+failed[0]) || strings.Contains(out.String(), "none lost") {
				t.Errorf("printed:\n%s", &out)
			}
		})
	}
}
