package ops

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// TestResumeOfABreakerThatHasClosed: a resume with --count does nothing to a breaker that a success has closed
// meanwhile, and says so. The audit log has no entry.
func TestResumeOfABreakerThatHasClosed(t *testing.T) {
	store, now := counter.NewMemory(nil), time.Now()
	ask := func(a counter.Ask) {
		t.Helper()
		if _, err := store.AskBreaker(t.Context(), "/", "orders", a); err != nil {
			t.Fatal(err)
		}
	}
	ask(counter.Ask{Progress: counter.Progress{Breaker: 8}, Seen: counter.Breaker{Doubt: now.Add(-time.Minute),
		Open: now.Add(-time.Minute)}})
	q := &Queue{Store: store.Admin(), VHost: "/", Name: "orders"}
	plan, err := ChangeOf(VerbResume).Plan(t.Context(), q, Ask{Count: 10 * time.Minute})
	if err != nil || !strings.Contains(plan.Text(), "its breaker would be closed") {
		t.Fatalf("%+v, %v", plan, err)
	}
	ask(counter.Ask{Progress: counter.Progress{Breaker: 8, Began: now, Ended: now}})
	err = plan.Do(t.Context(), q)
	const want = "orders: is resumed already; its breaker is closed, so every failure is counted already: --count is " +
		"for a breaker that is open"
	if plan.Text() != want || err != nil {
		t.Errorf("%q, %v", plan.Text(), err)
	}
	if log, err := q.AuditLog(t.Context(), 10); !errors.Is(err, ErrNone) {
		t.Errorf("the audit log: %+v, %v", log, err)
	}
}
