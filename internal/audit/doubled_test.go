package audit

import (
	"strings"
	"testing"
	"time"
)

// TestDoubledStart has a START delivered twice, the second time after WAIT, before its process dies beside another handler. The next
// START counts a crash. Only what the store cannot tell from a crash is excused.
func TestDoubledStart(t *testing.T) {
	for _, tc := range []struct {
		name                string
		waited, late, ended bool
		excused             bool
	}{
		{"twice, then it died", true, true, false, true},
		{"never answered WAIT", false, true, false, false},
		{"not late", true, false, false, false},
		{"ended after it", true, true, true, false},
	} {
		h := complete()
		asks := Event{ID: "b", Token: "q-1", Process: 2, Session: 1, Step: StepStart, Exclusive: true}
		step := func(e Event, kind Kind, step, verdict string, before, after *Record) {
			e.Kind, e.Step, e.Verdict, e.Before, e.Record, e.Limit = kind, step, verdict, before, after, 2
			h.add(e)
		}
		open := &Record{Failures: 1, Tokens: ";p-2=f", OpenToken: "q-1", OpenExclusive: true, Fence: 7, TTL: time.Hour}
		h.add(Event{Kind: Started, Process: 2})
		h.add(Event{Kind: Opened, Process: 2, Session: 1})
		if tc.waited {
			step(asks, Stepped, StepStart, VerdictWait, nil, nil)
		}
		h.add(Event{Kind: Began, ID: "a", Copy: "a.1", Token: "q-2", Process: 2, Session: 1})
		twice := asks
		twice.Late = tc.late
		step(twice, Written, StepStart, VerdictRun, nil, open)
		if tc.ended {
			step(asks, Written, StepEnd, "ended", open, open)
		}
		h.add(Event{Kind: Exited, Process: 2, Err: "killed"})
		next := asks
		next.Token, next.Process = "r-1", 3
		h.add(Event{Kind: Started, Process: 3})
		h.add(Event{Kind: Opened, Process: 3, Session: 1})
		step(next, Written, StepStart, VerdictRun, open, &Record{Failures: 1, Crashes: 1, Tokens: ";p-2=f;q-1=c", OpenToken: "r-1", OpenExclusive: true, Fence: 8, TTL: time.Hour})
		if f := Check(h).Violations["I5"]; strings.Contains(f.Example, "it had not crashed") == tc.excused {
			t.Errorf("%s: %d violations: %s", tc.name, f.Count, f.Example)
		}
	}
}
