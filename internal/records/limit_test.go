package records

import (
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

func TestShort(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"24h": 24 * time.Hour, "1h5m": 65 * time.Minute, "10m": 10 * time.Minute, "1h0m10s": time.Hour + 10*time.Second,
		"20s": 20 * time.Second, "1.5s": 1500 * time.Millisecond, "1ms": time.Millisecond,
	} {
		if got := short(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// TestTakingAnOwnLimitBack: a message that is too old for its queue is dead-lettered once it has no limit of its own.
func TestTakingAnOwnLimitBack(t *testing.T) {
	q, c := queueAt(t)
	m := counter.Message{VHost: "/", Queue: "orders", ID: "m"}
	for _, token := range []string{"a", "b"} {
		if _, err := c.Fail(t.Context(), counter.Attempt{Message: m, Token: token}, counter.Failure{Limit: 9}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // the message grows older
	}
	age := time.Millisecond
	if err := q.Store.LimitMessage(t.Context(), m, 50, counter.Note{Why: "y"}); err != nil {
		t.Fatal(err)
	}
	if err := q.Store.SetLimit(t.Context(), "/",
		"orders", counter.Override{MaxAge: &age, Note: counter.Note{Why: "y"}}); err != nil {
		t.Fatal(err)
	}
	for attempts, want := range map[int]int{60: 0, 1: 1, 0: 1} {
		l, err := q.PlanOwnLimit(t.Context(), "m", attempts, counter.Note{Why: "y"})
		if err != nil || l.DeadLetters != want {
			t.Errorf("%d attempts: %d are dead-lettered, %v; want %d", attempts, l.DeadLetters, err, want)
		}
	}
}
