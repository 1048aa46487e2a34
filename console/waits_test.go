package console

import (
	"strings"
	"testing"

	"github.com/strikesmq/strikes/ops"
)

// TestReasonOfWaitsIsToldOnce: in an outage all processes have the same one.
func TestReasonOfWaitsIsToldOnce(t *testing.T) {
	f := newFixture(t, Options{}, func(b *fakeBroker) {
		b.status.Waiting = []ops.WaitingMessages{{Messages: 2, Why: "the database is away", Consumer: "web-1"},
			{Messages: 3, Why: "the database is away", Consumer: "web-2"}}
	})
	body := strings.Join(strings.Fields(checkPage(t, f, query("queue"))), " ")
	if n := strings.Count(body, "the database is away"); n != 1 || !strings.Contains(body, "5 messages waiting for") ||
		!strings.Contains(body, "in 2 processes, because") {
		t.Errorf("told %d times: %s", n, body)
	}
}
