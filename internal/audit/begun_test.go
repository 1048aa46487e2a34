package audit

import (
	"testing"
)

// TestCrashesBeforeTheHandler has a process die before the handler of an isolated attempt begins, and the next START
// count a crash.
func TestCrashesBeforeTheHandler(t *testing.T) {
	for _, tc := range []struct {
		name               string
		asked, began       bool
		violations, listed int
	}{
		{"killed before BEGUN", false, false, 1, 0},
		{"killed after BEGUN was sent", true, false, 0, 1},
		{"killed while its handler ran", true, true, 0, 0},
	} {
		h := complete()
		of := func(kind Kind, token string, process int) Event {
			return Event{Kind: kind, ID: "b", Token: token, Process: process, Session: 1, Limit: 2}
		}
		step := func(e Event, code string, before, after *Record) {
			e.Code, e.Before, e.Record = code, before, after
			h.add(e)
		}
		live := &Record{}
		counted := &Record{Crashes: 1, Tokens: ";q-1=c"}
		h.add(Event{Kind: Started, Process: 2})
		h.add(Event{Kind: Opened, Process: 2, Session: 1})
		start := of(Written, "q-1", 2)
		start.Step, start.Isolated = StepStart, true
		step(start, ReplyRun, nil, live)
		start.Kind = Stepped
		step(start, ReplyRun, nil, nil)
		if tc.asked {
			h.add(of(Asked, "q-1", 2))
			begun := of(Written, "q-1", 2)
			begun.Step = StepBegun
			step(begun, ReplyBegun, live, live)
			if tc.began {
				begun.Kind = Stepped
				step(begun, ReplyBegun, nil, nil)
			}
		}
		if tc.began {
			h.add(of(Began, "q-1", 2))
		}
		h.add(Event{Kind: Exited, Process: 2, Err: "killed"})
		h.add(Event{Kind: Started, Process: 3})
		h.add(Event{Kind: Opened, Process: 3, Session: 1})
		next := of(Written, "r-1", 3)
		next.Step, next.Isolated = StepStart, true
		step(next, ReplyRun, live, counted)
		r := Check(h)
		if f := r.Violations["begun"]; f.Count != tc.violations || len(r.Unbegun) != tc.listed {
			t.Errorf("%s: %d violations, want %d: %s; listed %q", tc.name, f.Count, tc.violations, f.Example, r.Unbegun)
		}
	}
}

// TestMayHaveOpened: the last isolated START decides. Without a reply it may have opened the attempt.
func TestMayHaveOpened(t *testing.T) {
	isolated := func(code string) Event { return Event{Step: StepStart, Isolated: true, Code: code} }
	shared := Event{Step: StepStart, Code: ReplyRun}
	for _, tt := range []struct {
		name  string
		steps []Event
		want  bool
	}{
		{"a shared attempt", []Event{shared}, false},
		{"no reply", []Event{shared, isolated("")}, true},
		{"run", []Event{isolated(""), isolated(ReplyRun)}, true},
		{"wait, after no reply", []Event{isolated(""), isolated("wait")}, false},
	} {
		if got := mayHaveOpened(tt.steps); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
