//go:build unix

package render

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/ops"
)

// TestAlarms: the list of all queues ends with the refusals of the broker and the store, each in one line.
func TestAlarms(t *testing.T) {
	o := ops.Overview{Queues: []ops.Status{{Queue: "q"}}, Alarms: []inspect.Finding{{
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
	o := ops.Overview{Time: noon, Queues: []ops.Status{{
		Queue: "orders", Retrying: 8, Blocked: 12 * time.Minute, Silent: 1,
		Head:    &ops.Message{ID: "17", State: ops.Ready, Attempt: 2, Limit: 4, LastError: refused},
		Waiting: []ops.WaitingMessages{{Messages: 16, Since: earlierBy(time.Minute), Why: refused}},
		Breaker: &ops.Breaker{Since: earlierBy(12 * time.Minute), Open: true, Failed: 8, Alike: 7, Reason: refused,
			Next: noon.Add(2 * time.Second)},
	}}}
	var out bytes.Buffer
	need(t, Overview(&out, o, 0))
	want := "no progress for 12m: " + refused + "; 8 messages failed, none succeeded, nothing is counted; " +
		"blocked for 12m by 17, attempt 2 of 4; 16 messages waiting for 60s, not counted; 1 silent process\n"
	if !strings.Contains(out.String(), "  "+want) {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if s := strings.Join(strings.Fields(out.String()), " "); !strings.HasPrefix(s, "QUEUE BLOCKED FAILING ") ||
		!strings.Contains(s, " orders 12m 16 0 ") {
		t.Errorf("those that wait fail too: %q", s)
	}
}

// TestSince: the first death that the store knows may be that of a message that was replayed since.
func TestSince(t *testing.T) {
	for still, want := range map[int64]string{77: " 77 2026-11-21T11:00:00Z ", 1: " 1 - "} {
		var out bytes.Buffer
		need(t, Overview(&out, ops.Overview{Time: noon, Queues: []ops.Status{{Queue: "orders", StoreSeen: true,
			Dead: ops.DeadLetters{Count: 77, Still: still, Since: earlierBy(time.Hour)}}}}, 0))
		if s := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(s, want) {
			t.Errorf("%q is not in %q", want, s)
		}
	}
}

// TestUnrecorded: a queue whose dead letters the store does not know does not look as if it had none.
func TestUnrecorded(t *testing.T) {
	dead := ops.DeadLetters{Unrecorded: 3}
	var out bytes.Buffer
	need(t, Overview(&out, ops.Overview{Time: noon, Queues: []ops.Status{{Queue: "orders", Dead: dead}}}, 0))
	out.WriteString(Status(ops.Status{Time: noon, Queue: "orders", Dead: dead}))
	for _, want := range []string{"3 dead letters not known to the store\n", "dead       none that the store knows\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, out.String())
		}
	}
}

// TestWithoutAReason: where a reason is not known, nothing stands in its place: no colon, and no empty line.
func TestWithoutAReason(t *testing.T) {
	breaker := &ops.Breaker{Since: earlierBy(time.Minute), Failed: 8}
	o := ops.Overview{Time: noon, Queues: []ops.Status{{
		Queue: "orders", Paused: &counter.Note{At: earlierBy(time.Minute)},
		Waiting: []ops.WaitingMessages{{Messages: 1, Since: noon}}, Breaker: breaker}}}
	var out bytes.Buffer
	need(t, Overview(&out, o, 0))
	out.WriteString(Status(ops.Status{Time: noon, Queue: "orders", Breaker: breaker,
		Waiting: []ops.WaitingMessages{{Messages: 1, Since: noon, Consumers: []string{"web-1"}}}}))
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimRight(line, "\n"); strings.TrimSpace(line) == "" || strings.HasSuffix(line, ":") ||
			strings.HasSuffix(line, " ") || strings.Contains(line, ": ;") {
			t.Errorf("%q", line)
		}
	}
}

// TestDelay: a status shows the depth of each delay queue, and warns of messages that could not return.
func TestDelay(t *testing.T) {
	lane := []ops.DelayQueue{{Queue: "strikes.delay.1m", Messages: 3}, {Queue: "strikes.delay.24h", Messages: 1},
		{Queue: "strikes.delay.lost"}}
	lost := []ops.DelayQueue{{Queue: "strikes.delay.lost", Messages: 2}}
	const depths = "delayed    4 messages of all queues: 1m 3, 24h 1\n"
	const warned = "lost       strikes.delay.lost: 2 messages came back to a queue that was gone; see " +
		"docs/operations.md#messages-have-lost-their-queue\n"
	for _, tc := range []struct {
		seen []ops.DelayQueue
		want string
	}{
		{nil, ""},
		{lane, depths},
		{append(lane[:2:2], lost...), depths + warned},
		{lost, warned},
	} {
		var p page
		if p.delayQueues(tc.seen); p.String() != tc.want {
			t.Errorf("%v: %s", tc.seen, &p)
		}
		var out bytes.Buffer
		if err := Overview(&out, ops.Overview{Queues: []ops.Status{{Queue: "q"}, {Queue: "r"}}, DelayQueues: tc.seen},
			1); err != nil {
			t.Fatal(err)
		}
		end := "and 1 more\nconsumers and ready messages are up to 10 s old; strikes status QUEUE reads them now\n"
		end += tc.want
		if !strings.HasSuffix(out.String(), end) {
			t.Errorf("all queues: %q does not end with %q", out.String(), end)
		}
	}
}

// TestOverviewOf80Columns: a narrow terminal wraps the line. It still shows for how long a queue has been stopped
// without a record of a message, how many messages wait, and why.
func TestOverviewOf80Columns(t *testing.T) {
	const refused = "exit status 75: dial tcp 10.0.0.7:5432: connection refused"
	none, some := 0, 40
	o := ops.Overview{Time: noon, Queues: []ops.Status{{
		Queue: "orders-of-the-shop", Ready: &some, Consumers: &none, Stopped: 12 * time.Minute,
		Dead:    ops.DeadLetters{Holds: &none},
		Waiting: []ops.WaitingMessages{{Messages: 16, Since: earlierBy(12 * time.Minute), Why: refused}},
		Breaker: &ops.Breaker{Since: earlierBy(12 * time.Minute), Open: true, Failed: 8, Alike: 8, Reason: refused},
	}}}
	ours, theirs, err := pty.Open()
	need(t, err)
	defer ours.Close()
	need(t, pty.Setsize(ours, &pty.Winsize{Rows: 24, Cols: 80}))
	need(t, Overview(theirs, o, 0))
	need(t, theirs.Close())
	shown, _ := io.ReadAll(ours) // ends with an error because the other end is closed
	_, row, _ := strings.Cut(strings.TrimSpace(string(shown)), "\n")
	got := strings.Join(strings.Fields(row), " ")
	if !strings.HasPrefix(got, "orders-of-the-shop 12m 16 0 - 0 0 40 no progress for 12m: exit s…") {
		t.Errorf("%q", shown)
	}
}
