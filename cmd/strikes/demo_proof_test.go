package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
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
	all, err := l.entries()
	if err != nil || !maps.Equal(countEntries(all, entryAttempt), map[string]int{"a": 2}) ||
		!maps.Equal(countEntries(all, entryDone), map[string]int{"b": 200}) || all[0].pid != os.Getpid() {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := (&ledger{os.NewFile(^uintptr(0), "none")}).entries(); err == nil {
		t.Error("a missing ledger is empty")
	}
}

// TestFlakyOrder: an order that fails twice has two counted failures, also if a kill ended an attempt before it was
// counted.
func TestFlakyOrder(t *testing.T) {
	l, err := newLedger()
	need(t, err)
	defer l.file.Close()
	o := demoOrders()[3]
	body, err := json.Marshal(o)
	need(t, err)
	_, err = l.enter(entryAttempt, o.ID) // of a process that was killed
	need(t, err)
	store := counter.NewMemory(nil)
	c := consumer.Consumer{Queue: "q", Handler: demoHandler(l), Counter: store, MaxRetries: demoRetries,
		Retry: consumer.RetryInPlace, Backoff: func(int) time.Duration { return 0 }}
	outcome, err := c.Handle(t.Context(), "", amqp.Delivery{MessageId: o.ID, Body: body, Acknowledger: settled{}})
	need(t, err)
	records, err := store.Admin().Get(t.Context(), "/", "q", o.ID)
	if err != nil || outcome != consumer.OutcomeAck || len(records) != 1 || records[0].Failures != 2 {
		t.Errorf("%v, %+v, %v", outcome, records, err)
	}
}

// settled accepts every settlement.
type settled struct{}

func (settled) Ack(uint64, bool) error        { return nil }
func (settled) Nack(uint64, bool, bool) error { return nil }
func (settled) Reject(uint64, bool) error     { return nil }

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
		var all []ledgerEntry
		for _, pid := range tc.done {
			all = append(all, ledgerEntry{entryAttempt, "a", pid}, ledgerEntry{entryDone, "a", pid})
		}
		if got := handledAgain(all, killed)["a"]; got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	killed := map[int]bool{1: true, 2: true}
	for name, tc := range map[string]struct {
		attempts []int // pids of the consumers that began one, in turn
		done     int   // the one that succeeded, after them all
		want     int
	}{
		"one killed in the attempt":   {[]int{1, 3}, 3, 1},
		"two killed":                  {[]int{1, 2, 3}, 3, 2},
		"attempts before are counted": {[]int{1, 1, 1}, 3, 1},
		"killed after it succeeded":   {[]int{1}, 1, 0},
		"one of the two succeeded":    {[]int{1, 2}, 2, 1},
		"consumers that lived":        {[]int{3, 4}, 4, 0},
	} {
		var all []ledgerEntry
		for _, pid := range tc.attempts {
			all = append(all, ledgerEntry{entryAttempt, "a", pid})
		}
		all = append(all, ledgerEntry{entryDone, "a", tc.done})
		if got := interrupted(all, killed)["a"]; got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
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
	for name, tt := range map[string]struct {
		add  func(e *evidence)
		says string
	}{
		"as it should be": {func(*evidence) {}, "20 orders: 19 handled, 1 dead-lettered, none lost."},
		"killed before the ack": {func(e *evidence) {
			e.done["order-11"], e.attempts["order-11"], e.again = 2, 2, map[string]int{"order-11": 1}
		}, "order-11 was handled 1 time more: its consumer was killed before the broker had the ack"},
		"killed before the failure was counted": {func(e *evidence) {
			e.attempts["order-07"], e.interrupted = 5, map[string]int{"order-07": 1, "order-12": 1, "order-01": 1}
		}, "1 attempt of order-07 not counted"},
	} {
		e := goodEvidence()
		tt.add(&e)
		v := judged(e)
		var out strings.Builder
		if v.print(&out); !v.OK || len(v.Checks) != 5 || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: ok %v:\n%s", name, v.OK, &out)
		}
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
		{"handled twice, and a kill explains another", func(e *evidence) {
			e.done["order-01"], e.attempts["order-01"] = 2, 2
			e.done["order-02"], e.attempts["order-02"], e.again = 2, 2, map[string]int{"order-02": 1}
		}, "orders handled to the end, attempts of the handler"},
		{"more often than a kill explains", func(e *evidence) {
			e.done["order-01"], e.attempts["order-01"], e.again = 3, 2, map[string]int{"order-01": 1}
		}, "orders handled to the end"},
		{"the poison was handled", func(e *evidence) { e.done["order-07"] = 1 }, "orders handled to the end"},
		{"one attempt too few", func(e *evidence) { e.attempts["order-07"] = 3 }, "attempts of the handler"},
		{"one attempt more than a kill explains", func(e *evidence) {
			e.attempts["order-07"], e.interrupted = 6, map[string]int{"order-07": 1}
		}, "attempts of the handler"},
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
