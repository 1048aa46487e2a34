package audit

import (
	"fmt"
	"testing"
	"time"
)

// undecided adds a process in which the store leaves START isolated of a healthy message unanswered, for as long as
// given, while the attempt of another one runs that kills the process. The next START isolated counts the crash.
func (h *history) undecided(process int, took, lasts time.Duration, other Event) {
	at := began.Add(time.Minute)
	base := Event{ID: Succeed, Token: fmt.Sprintf("u%d-1", process), Process: process, Session: 1}
	asked := base
	asked.Kind, asked.Step, asked.Isolated, asked.At, asked.Took = Stepped, "start", true, at.Add(took), took
	h.add(Event{Kind: Opened, Process: process, Session: 1, At: at})
	h.add(asked)
	other.Token, other.Process, other.Session, other.At = fmt.Sprintf("u%d-2", process), process, 1,
		at.Add(took+time.Millisecond)
	if other.Redelivered {
		started := other
		started.Kind, started.Step, started.Code = Stepped, "start", "run"
		h.add(started)
	}
	other.Kind = Began
	h.add(other)
	h.add(Event{Kind: Exited, Process: process, Err: "signal: killed", At: at.Add(lasts)})
	h.add(Event{Kind: Kept, Key: Succeed, ID: Succeed, Record: &Record{State: "done", Crashes: 1, Tokens: ";" +
		base.Token + "=c"}, TTL: time.Hour})
}

// TestKillsOfOthers has a crash counted against a message that did not run. It is allowed only while the store left it
// undecided for longer than the isolation lock is held, and only for a kill by an attempt that took no START.
func TestKillsOfOthers(t *testing.T) {
	const try = 250 * time.Millisecond
	for _, tc := range []struct {
		name  string
		lasts time.Duration
		other Event
		want  int // violations of isolated
		left  int // listed as undecided
	}{
		{"the lock was let go after one try", 300 * time.Millisecond, Event{ID: Kill}, 1, 0},
		{"the same, beside a redelivered message", 300 * time.Millisecond, Event{ID: Kill, Redelivered: true}, 2, 0},
		{"a first delivery, the gate closed", 2100 * time.Millisecond, Event{ID: Kill}, 0, 1},
		{"a redelivered message, the gate closed", 2100 * time.Millisecond, Event{ID: Kill, Redelivered: true}, 1, 1},
	} {
		h := healthy()
		h.undecided(9, try, tc.lasts, tc.other)
		r := Check(h)
		if f := r.Violations["isolated"]; f.Count != tc.want || len(r.Undecided) != tc.left {
			t.Errorf("%s: %d violations, %d undecided, want %d and %d: %s", tc.name, f.Count, len(r.Undecided), tc.want, tc.left,
				f.Example)
		}
	}
}

// TestAnAnswerOpensTheGate has other attempts begin after the store has answered.
func TestAnAnswerOpensTheGate(t *testing.T) {
	for _, step := range []string{"start", "end", "fail"} {
		h := healthy()
		h.undecided(9, 250*time.Millisecond, 300*time.Millisecond, Event{ID: Kill, Redelivered: true})
		h.add(Event{
			Kind: Stepped, ID: Succeed, Token: "u9-1", Process: 9, Session: 1, Step: step, Isolated: step == "start",
			Code: "run",
			At:   began.Add(time.Minute + 250500*time.Microsecond),
		})
		h.without(Kept, Succeed)
		if f := Check(h).Violations["isolated"]; f.Count > 0 {
			t.Errorf("%s was answered: %s", step, f.Example)
		}
	}
}

// TestAbandonedHandlersRun: one that runs on after its deadline is beside what runs isolated.
func TestAbandonedHandlersRun(t *testing.T) {
	for _, tc := range []struct {
		returned time.Duration // before the isolated attempt began
		want     int
	}{{time.Millisecond, 0}, {-time.Millisecond, 1}} {
		h := healthy()
		h.change(Published, Poison, func(e *Event) { e.Do = Deaf })
		h.change(Began, "k0-1", func(e *Event) {
			abandoned := Event{ID: Poison, Token: "k0-2", Process: 2, Session: 1, Kind: Began, At: e.At.Add(-time.Hour)}
			h.add(abandoned)
			abandoned.Kind, abandoned.Outcome, abandoned.At = Ended, TimedOut, e.At.Add(-tc.returned)
			h.add(abandoned)
		})
		if f := Check(h).Violations["isolated"]; f.Count != tc.want {
			t.Errorf("returned %v before: %d violations, want %d: %s", tc.returned, f.Count, tc.want, f.Example)
		}
	}
}

// TestKillsBesideAnAbandonedHandlerAreNotCounted has a killer run beyond its bound: its attempts beside one were not
// counted.
func TestKillsBesideAnAbandonedHandlerAreNotCounted(t *testing.T) {
	for _, beside := range []bool{false, true} {
		h := healthy()
		for i := range 3 {
			h.isolated(Kill, fmt.Sprintf("m%d-1", i), 9+i)
			h.change(Stepped, fmt.Sprintf("m%d-1", i), func(e *Event) { e.Isolated, e.Beside = !beside, beside })
		}
		if f := Check(h).Violations["bound"]; f.Count > 0 == beside {
			t.Errorf("beside an abandoned handler %v: %+v", beside, f)
		}
	}
}
