package consumer

import (
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

func TestDecideReceived(t *testing.T) {
	for _, tc := range []struct {
		name               string
		hasID, redelivered bool
		run                int
		iso                Isolation
		want               step
	}{
		{"first delivery asks nobody", true, false, 1, IsolateSuspects, stepRun},
		{"redelivery asks the store", true, true, 1, IsolateSuspects, stepStart},
		{"second run in place asks the store", true, false, 2, IsolateSuspects, stepStart},
		{"redelivery asks even if crashes do not count", true, true, 1, Off, stepStart},
		{"first delivery with crashes off", true, false, 1, Off, stepRun},
		{"strict isolates everything", true, false, 1, Strict, stepIsolate},
		{"strict redelivery", true, true, 1, Strict, stepIsolate},
		{"no id: one attempt", false, false, 1, IsolateSuspects, stepRun},
		{"no id, strict: nothing to mark", false, false, 1, Strict, stepRun},
		{"no id: none after a redelivery", false, true, 1, IsolateSuspects, stepDeadLetter},
		{"no id: none in place", false, false, 2, IsolateSuspects, stepDeadLetter},
	} {
		if got := decideReceived(tc.hasID, tc.redelivered, tc.run, tc.iso); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestDecideStarted(t *testing.T) {
	for _, tc := range []struct {
		verdict counter.Verdict
		mode    counter.Mode
		want    step
	}{
		{counter.VerdictRun, counter.ModeShared, stepRun},
		{counter.VerdictRun, counter.ModeUntracked, stepRun},
		{counter.VerdictRun, counter.ModeIsolated, stepRunAlone},
		{counter.VerdictSuspect, counter.ModeShared, stepIsolate},
		{counter.VerdictExhausted, counter.ModeShared, stepDeadLetter},
		{counter.VerdictExhausted, counter.ModeIsolated, stepDeadLetter},
		{counter.VerdictWait, counter.ModeShared, stepPause},
		{counter.VerdictRequeue, counter.ModeShared, 0},
		{0, counter.ModeShared, 0},
	} {
		if got := decideStarted(tc.verdict, tc.mode); got != tc.want {
			t.Errorf("%v %v: got %d, want %d", tc.verdict, tc.mode, got, tc.want)
		}
	}
}

func TestDecideEnded(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  ended
		want step
	}{
		{"success", ended{ok: true, hasID: true}, stepAck},
		{"success of a marked attempt", ended{ok: true, hasID: true, marked: true}, stepEnd},
		{"success while stopping", ended{ok: true, hasID: true, stopped: true}, stepAck},
		{"failure", ended{hasID: true}, stepFail},
		{"failure while stopping is not charged", ended{hasID: true, stopped: true}, stepLeave},
		{"failure of a marked attempt while stopping", ended{hasID: true, marked: true, stopped: true}, stepLeave},
		{"reject", ended{hasID: true, rejected: true}, stepFail},
		{"reject while stopping", ended{hasID: true, rejected: true, stopped: true}, stepFail},
		{"failure without an id", ended{}, stepDeadLetter},
		{"reject without an id", ended{rejected: true}, stepDeadLetter},
		{"success without an id", ended{ok: true}, stepAck},
	} {
		if got := decideEnded(tc.end); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestDecideFailed(t *testing.T) {
	for _, tc := range []struct {
		verdict     counter.Verdict
		mode        RetryMode
		next, after step
	}{
		{counter.VerdictRequeue, Requeue, stepPause, stepRequeue},
		{counter.VerdictRequeue, InPlace, stepPause, stepAgain},
		{counter.VerdictExhausted, Requeue, stepDeadLetter, 0},
		{counter.VerdictExhausted, InPlace, stepDeadLetter, 0},
		{counter.VerdictRun, Requeue, 0, 0},
	} {
		if next, after := decideFailed(tc.verdict, tc.mode); next != tc.next || after != tc.after {
			t.Errorf("%v, mode %d: got %d then %d, want %d then %d", tc.verdict, tc.mode, next, after, tc.next, tc.after)
		}
	}
}

func TestDecidePause(t *testing.T) {
	for _, tc := range []struct {
		name       string
		wait, left time.Duration
		want       time.Duration
		after      step
	}{
		{"fits", time.Second, time.Minute, time.Second, stepAgain},
		{"just fits", time.Minute, time.Minute, time.Minute, stepAgain},
		{"does not fit: hand it on in time", time.Hour, time.Minute, time.Minute, stepOverdue},
		{"no time left", time.Second, -time.Second, 0, stepOverdue},
		{"no wait", 0, time.Minute, 0, stepAgain},
		{"a negative wait is none", -time.Second, time.Minute, 0, stepAgain},
	} {
		if got, after := decidePause(tc.wait, tc.left, stepAgain); got != tc.want || after != tc.after {
			t.Errorf("%s: got %v then %d, want %v then %d", tc.name, got, after, tc.want, tc.after)
		}
	}
}

func TestDecideOverdue(t *testing.T) {
	if got := decideOverdue(false); got != stepRequeue {
		t.Errorf("not ordered: %d, want it requeued", got)
	}
	if got := decideOverdue(true); got != stepGiveUp {
		t.Errorf("ordered: %d, want the session to end", got)
	}
}

func TestDecideOutage(t *testing.T) {
	for _, tc := range []struct {
		name        string
		taking      step
		rejected    bool
		left        time.Duration
		next, after step
	}{
		{"a redelivery is held", stepStart, false, time.Minute, stepPause, stepStart},
		{"a suspect is held", stepRunAlone, false, time.Minute, stepPause, stepRunAlone},
		{"a failure is held", stepFail, false, time.Minute, stepPause, stepFail},
		{"a success is held", stepEnd, false, time.Minute, stepPause, stepEnd},
		{"a reject is not", stepFail, true, time.Minute, stepDeadLetter, 0},
		{"too long for a redelivery", stepStart, false, 0, stepGiveUp, 0},
		{"too long for a failure", stepFail, false, 0, stepGiveUp, 0},
		{"too long for a success: it was handled", stepEnd, false, 0, stepAck, 0},
	} {
		if next, after := decideOutage(tc.taking, tc.rejected, time.Second, tc.left); next != tc.next || after != tc.after {
			t.Errorf("%s: got %d then %d, want %d then %d", tc.name, next, after, tc.next, tc.after)
		}
	}
}

func TestDecideStopped(t *testing.T) {
	if got := decideStopped(stepEnd); got != stepAck {
		t.Errorf("a success whose END is held: got %d, want it acked", got)
	}
	for _, after := range []step{stepStart, stepRequeue, stepAgain, stepFail, stepRunAlone} {
		if got := decideStopped(after); got != stepLeave {
			t.Errorf("after %d: got %d, want it left", after, got)
		}
	}
}

func TestDefaultBackoff(t *testing.T) {
	for charges, most := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 5: 1600 * time.Millisecond,
		9: 25600 * time.Millisecond, 10: 30 * time.Second, 1000: 30 * time.Second,
	} {
		for range 100 {
			if d := DefaultBackoff(charges); d < most/2 || d > most {
				t.Errorf("after %d charges: %v, want %v to %v", charges, d, most/2, most)
			}
		}
	}
}
