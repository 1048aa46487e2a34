package ops

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// TestResumeOfABreakerThatHasClosed: a resume does nothing to a breaker that a success has closed meanwhile, and
// says so. The audit log has no entry.
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
	plan, err := ChangeOf(VerbResume).Plan(t.Context(), q, Ask{})
	if err != nil || !strings.Contains(plan.Text(), "its breaker would be closed") {
		t.Fatalf("%+v, %v", plan, err)
	}
	ask(counter.Ask{Progress: counter.Progress{Breaker: 8, Began: now, Ended: now}})
	err = plan.Do(t.Context(), q)
	if plan.Text() != "orders: is resumed already" || err != nil {
		t.Errorf("%q, %v", plan.Text(), err)
	}
	if log, err := q.AuditLog(t.Context(), 10); !errors.Is(err, ErrNone) {
		t.Errorf("the audit log: %+v, %v", log, err)
	}
}

// TestResumeOfAnExhaustedMessage: a resume says that the message for which the queue is paused pauses it again.
func TestResumeOfAnExhaustedMessage(t *testing.T) {
	for id, want := range map[string]bool{"m-1": true, "": false} {
		p := &Pause{Queue: "orders", Note: counter.Note{By: "a consumer", Why: "exhausted"}, Done: true, holding: id}
		got := strings.Contains(p.Text(), "; message m-1 pauses it again unless you decide about it: strikes status orders")
		if got != want {
			t.Errorf("message %q: %s", id, p.Text())
		}
	}
}
