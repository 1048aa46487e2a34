package render

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/ops"
)

// TestAlarms: the list of all queues ends with the refusals of the broker and the store, each in one line.
func TestAlarms(t *testing.T) {
	o := ops.Overview{Queues: []ops.Summary{{Queue: "q"}}, Alarms: []inspect.Finding{{
		Code: "store-few-replicas", Seen: "the store h:1 has 0 of\nthe 1 replicas", Impact: "it refuses writes",
	}}}
	var out bytes.Buffer
	need(t, Overview(&out, o, 0))
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 4 ||
		!strings.HasPrefix(lines[3], "store-few-replicas: the store h:1 has 0 of") || !strings.HasSuffix(lines[3],
		"; it refuses writes") {
		t.Errorf("%q", lines)
	}
}

// TestOverviewOfAnOutage: the list says since when a queue makes no progress, and gives the reason once.
func TestOverviewOfAnOutage(t *testing.T) {
	const refused = "dial tcp 10.0.0.7:5432: refused"
	o := ops.Overview{Time: noon, Queues: []ops.Summary{{
		Queue: "orders", Retrying: 8, Blocked: 12 * time.Minute,
		Head:    &ops.Message{ID: "17", State: ops.Ready, Attempt: 2, Limit: 4, LastError: refused},
		Waiting: &ops.WaitingMessages{Messages: 16, Since: earlierBy(time.Minute), Why: refused},
		Breaker: &ops.Breaker{Since: earlierBy(12 * time.Minute), Open: true, Failed: 8, Alike: 7, Reason: refused,
			Next: noon.Add(2 * time.Second)},
	}}}
	var out bytes.Buffer
	need(t, Overview(&out, o, 0))
	want := "no progress: " + refused + "; 8 messages failed, none succeeded, nothing is counted; 17: attempt 2 of 4; " +
		"16 messages waiting for 60s, not counted\n"
	if !strings.Contains(out.String(), "  "+want) {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if s := strings.Join(strings.Fields(out.String()), " "); !strings.HasPrefix(s, "QUEUE BLOCKED FAILING ") ||
		!strings.Contains(s, " orders 12m 16 0 ") {
		t.Errorf("those that wait fail too: %q", s)
	}
}

// TestWithoutAReason: where a reason is not known, nothing stands in its place: no colon, and no empty line.
func TestWithoutAReason(t *testing.T) {
	breaker := &ops.Breaker{Since: earlierBy(time.Minute), Failed: 8}
	o := ops.Overview{Time: noon, Queues: []ops.Summary{{
		Queue: "orders", Paused: &counter.Note{At: earlierBy(time.Minute)},
		Waiting: &ops.WaitingMessages{Messages: 1, Since: noon}, Breaker: breaker}}}
	var out bytes.Buffer
	need(t, Overview(&out, o, 0))
	out.WriteString(term.Joined(Status(ops.Status{Time: noon, Queue: "orders", Breaker: breaker,
		Waiting: []ops.WaitingMessages{{Messages: 1, Since: noon, Consumer: "web-1"}}}), false))
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimRight(line, "\n"); strings.TrimSpace(line) == "" || strings.HasSuffix(line, ":") ||
			strings.HasSuffix(line, " ") || strings.Contains(line, ": ;") {
			t.Errorf("%q", line)
		}
	}
}
