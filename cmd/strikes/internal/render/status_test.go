package render

import (
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/ops"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func earlierBy(d time.Duration) time.Time { return noon.Add(-d) }

// TestStandingIsSafeToShow: whatever a message, a handler or an operator wrote, a terminal gets no control character
// of it.
func TestStandingIsSafeToShow(t *testing.T) {
	const hostile = "\x1b]0;owned\x07\x1b[2J\r\n\u202e\u009b\x00\xff"
	text := Status(statusWith(hostile))
	if want := strings.Count(Status(statusWith("x")), "\n"); strings.Count(text, "\n") != want {
		t.Errorf("%d lines, want %d", strings.Count(text, "\n"), want)
	}
	for line := range strings.Lines(text) {
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool {
			return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\ufffd'
		}) {
			t.Errorf("%q", line)
		}
	}
}

// statusWith is a status with a text wherever others may have written one.
func statusWith(hostile string) ops.Status {
	n, taken := 3, int64(1)
	return ops.Status{
		Time: noon, VHost: hostile, Queue: hostile, Notes: []string{hostile},
		Limit: &ops.Limit{Attempts: 2, Note: counter.Note{By: hostile, Why: hostile}},
		Blocking: []ops.Message{{ID: hostile, State: ops.Running, Running: noon, Since: noon, Failures: 1,
			LastError: hostile,
			Consumer:  hostile, Suspect: true, Limit: 4, Attempt: 2}},
		Retrying: 1,
		Dead: ops.DeadLetters{Count: 9, Since: noon, Queue: hostile, Holds: &n, Taken: &taken,
			Reasons: []*ops.Group{{Reason: hostile, Count: 9}}},
		Findings: []inspect.Finding{{Code: hostile, Seen: hostile, Impact: hostile}},
		Waiting:  []ops.WaitingMessages{{Messages: 1, Since: noon, Why: hostile, Consumers: []string{hostile}}},
		Paused:   &counter.Note{By: hostile, Why: hostile},
		Holding:  &ops.Holding{ID: hostile, Cause: counter.Cause(hostile), Since: noon},
	}
}

// TestStandingText shows the whole once. In an outage all processes wait for the same reason, which is told once.
func TestStandingText(t *testing.T) {
	unacked, holds := 1, 2
	s := ops.Status{
		Time: noon, VHost: "/", Queue: "orders", Ready: new(37), Consumers: new(2), Unacked: &unacked,
		Rates: &ops.Rates{In: 12,
			Out: 3.14, Acked: 3},
		Limit: &ops.Limit{Attempts: 6, Note: counter.Note{By: "jo@desk", At: earlierBy(time.Hour),
			Why: "supplier down"}},
		Processes: []ops.Consumer{{Consumer: "web-1", Ago: time.Second},
			{Consumer: "web-2", Silent: true, Ago: 19 * time.Second}},
		Retrying: 5,
		Blocking: []ops.Message{
			{ID: "17", State: ops.Waiting, Attempt: 3, Limit: 6, Since: earlierBy(4 * time.Minute),
				Next: noon.Add(12 * time.Second), Failures: 2, LastError: "no stock", Consumer: "web-1, pid 42"},
			{ID: "18", State: ops.Isolated, Attempt: 2, Limit: 6, Since: earlierBy(time.Minute),
				Running: earlierBy(20 * time.Second), Crashes: 1, Suspect: true, LastError: "process died",
				Consumer: "web-2, pid 7"},
			{ID: "19", State: ops.Waiting, Attempt: 2, Since: earlierBy(2 * time.Second), Next: noon.Add(time.Hour),
				Failures: 1, Moved: true, Skipped: true},
			{ID: "20", State: ops.Running, Attempt: 1, Limit: 6, Since: earlierBy(time.Second),
				Running: earlierBy(time.Second)},
		},
		Dead: ops.DeadLetters{Count: 9, Since: earlierBy(24 * time.Hour), Queue: "orders.dlq", Holds: &holds,
			Reasons: []*ops.Group{{Reason: "no stock", Count: 3, Kind: deadletter.KindTooOld}},
			Removed: 4, Still: 5, Unknown: 2, Missing: 1, Waiting: 2, WaitingSeen: true},
		Findings: []inspect.Finding{{Code: "dead-letter-exchange-missing", Severity: inspect.Error, Seen: "no exchange \"x\"",
			Impact: "messages are lost"}},
		Waiting: []ops.WaitingMessages{{Messages: 5, Since: earlierBy(4 * time.Minute), Why: "http://h is out of reach",
			Consumers: []string{"web-1, pid 42", "web-2"}}},
	}
	shows(t, "status.txt", Status(s))
}

// TestManySilent: of many silent processes, the three that were seen last have a line each, and the others are counted.
func TestManySilent(t *testing.T) {
	s := ops.Status{Queue: "orders"}
	for i := range 9 {
		s.Processes = append(s.Processes, ops.Consumer{Consumer: string(rune('a' + i)), Silent: i != 4,
			Ago: time.Duration(60-i) * time.Second})
	}
	for _, want := range []string{"silent     i: ", "silent     h: ", "silent     g: ", "and 5 more; a process"} {
		if text := Status(s); !strings.Contains(text, want) || strings.Count(text, "silent ") != 3 {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
