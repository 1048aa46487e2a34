package consumer

import (
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

func TestDecideReceived(t *testing.T) {
	for _, tc := range []struct {
		name                  string
		hasID, first, suspect bool
		iso                   Isolation
		want                  step
	}{
		{"a first delivery sends nothing to the store", true, true, false, IsolationSuspects, stepRun},
		{"a redelivery, or a later attempt in place, asks the store", true, false, false, IsolationSuspects, stepStart},
		{"it asks even if crashes are not counted", true, false, false, IsolationOff, stepStart},
		{"first delivery with crashes not counted", true, true, false, IsolationOff, stepRun},
		{"no id: one attempt", false, true, false, IsolationSuspects, stepRun},
		{"no id: none after a redelivery, and none in place", false, false, false, IsolationSuspects, stepDeadLetter},
		{"a suspect is isolated", true, false, true, IsolationSuspects, stepIsolate},
		{"a suspect with crashes not counted", true, false, true, IsolationOff, stepStart},
	} {
		if got := decideReceived(tc.hasID, tc.first, tc.suspect, tc.iso); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestDecideStarted(t *testing.T) {
	for code, want := range map[counter.ReplyCode]step{
		counter.ReplyRun: stepRun, counter.ReplySuspect: stepIsolate, counter.ReplyExhausted: stepDeadLetter,
		counter.ReplyWait: stepWait, counter.ReplyHeld: stepHeld, counter.ReplyRequeue: 0, 0: 0,
	} {
		if got := decideStarted(code); got != want {
			t.Errorf("%v: got %d, want %d", code, got, want)
		}
	}
}

func TestDecideMode(t *testing.T) {
	for abandoned, want := range map[int64]counter.Mode{0: counter.ModeIsolated, 1: counter.ModeBesideAbandoned} {
		if got := decideMode(abandoned); got != want {
			t.Errorf("beside %d: got %v, want %v", abandoned, got, want)
		}
	}
}

func TestDecideUnstarted(t *testing.T) {
	for _, tc := range []struct {
		sending step
		doubt   bool
		want    step
	}{{stepStart, false, stepStart}, {stepStart, true, stepStart}, {stepIsolate, false, stepIsolate},
		{stepIsolate, true, stepRetract}} {
		if got := decideUnstarted(tc.sending, tc.doubt); got != tc.want {
			t.Errorf("%d, doubt %v: got %d, want %d", tc.sending, tc.doubt, got, tc.want)
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
		{"success of an open attempt", ended{ok: true, hasID: true, open: true}, stepEnd},
		{"success while stopping", ended{ok: true, hasID: true, stopped: true}, stepAck},
		{"failure", ended{hasID: true}, stepFail},
		{"failure while stopping is not counted", ended{hasID: true, stopped: true}, stepLeave},
		{"failure of an open attempt while stopping", ended{hasID: true, open: true, stopped: true}, stepLeave},
		{"reject", ended{hasID: true, rejected: true}, stepFail},
		{"reject while stopping", ended{hasID: true, rejected: true, stopped: true}, stepFail},
		{"failure without an id", ended{}, stepDeadLetter},
		{"reject without an id", ended{rejected: true}, stepDeadLetter},
		{"success without an id", ended{ok: true}, stepAck},
		{"not counted", ended{hasID: true, uncounted: true}, stepUncount},
		{"not counted, open", ended{hasID: true, uncounted: true, open: true}, stepUncount},
		{"not counted, without an id: nothing is to be counted", ended{uncounted: true}, stepUncount},
		{"not counted, while stopping", ended{hasID: true, uncounted: true, stopped: true}, stepLeave},
		{"not counted, and rejected", ended{hasID: true, uncounted: true, rejected: true}, stepFail},
		{"crashed", ended{hasID: true, crashed: true, open: true}, stepSuspect},
		{"crashed, not open", ended{hasID: true, crashed: true}, stepSuspect},
		{"crashed, while stopping", ended{hasID: true, crashed: true, open: true, stopped: true}, stepLeave},
		{"crashed, and rejected", ended{hasID: true, crashed: true, rejected: true}, stepFail},
		{"crashed, without an id", ended{crashed: true}, stepDeadLetter},
	} {
		if got := decideEnded(tc.end); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestDecideFailed(t *testing.T) {
	for code, want := range map[counter.ReplyCode]step{counter.ReplyRequeue: stepWait,
		counter.ReplyExhausted: stepDeadLetter, counter.ReplyRun: 0} {
		if got := decideFailed(code); got != want {
			t.Errorf("%v: got %d, want %d", code, got, want)
		}
	}
	for mode, want := range map[RetryMode]step{RetryRequeue: stepRequeue, RetryInPlace: stepBegin} {
		if got := decideRetry(mode); got != want {
			t.Errorf("after the backoff, mode %d: got %d, want %d", mode, got, want)
		}
	}
}

func TestDecideWait(t *testing.T) {
	for _, tc := range []struct {
		name       string
		wait, left time.Duration
		want       time.Duration
		after      step
	}{
		{"fits", time.Second, time.Minute, time.Second, stepBegin},
		{"just fits", time.Minute, time.Minute, time.Minute, stepBegin},
		{"does not fit: given back in time", time.Hour, time.Minute, time.Minute, stepOverdue},
		{"no time left", time.Second, -time.Second, 0, stepOverdue},
		{"no wait", 0, time.Minute, 0, stepBegin},
		{"a negative wait is none", -time.Second, time.Minute, 0, stepBegin},
	} {
		if got, after := decideWait(tc.wait, tc.left, stepBegin); got != tc.want || after != tc.after {
			t.Errorf("%s: got %v then %d, want %v then %d", tc.name, got, after, tc.want, tc.after)
		}
	}
}

func TestDecideOverdue(t *testing.T) {
	for awaited, want := range map[bool]step{false: stepRequeue, true: stepGiveUp} {
		if got := decideOverdue(awaited); got != want {
			t.Errorf("awaited %v: got %d, want %d", awaited, got, want)
		}
	}
}

func TestDecideOutage(t *testing.T) {
	for _, tc := range []struct {
		name     string
		sending  step
		rejected bool
		left     time.Duration
		want     step
	}{
		{"a redelivery is held", stepStart, false, time.Minute, stepStart},
		{"a suspect is held", stepIsolate, false, time.Minute, stepIsolate},
		{"an attempt that is closed is held", stepRetract, false, time.Minute, stepRetract},
		{"one that is not counted is held", stepUncount, false, time.Minute, stepUncount},
		{"too long for one that is not counted", stepUncount, false, 0, stepGiveUp},
		{"a failure is held", stepFail, false, time.Minute, stepFail},
		{"a success is held", stepEnd, false, time.Minute, stepEnd},
		{"a reject is not", stepFail, true, time.Minute, stepDeadLetter},
		{"too long for a redelivery", stepStart, false, 0, stepGiveUp},
		{"too long for a failure", stepFail, false, 0, stepGiveUp},
		{"too long for a success: it was handled", stepEnd, false, 0, stepAck},
	} {
		if got := decideOutage(tc.sending, tc.rejected, time.Second, tc.left); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestDecideStopped(t *testing.T) {
	if got := decideStopped(stepEnd); got != stepAck {
		t.Errorf("a success whose END is held: got %d, want it acked", got)
	}
	for _, after := range []step{stepStart, stepRequeue, stepBegin, stepFail, stepIsolate, stepRetract, stepUncount,
		stepOverdue, stepDeadLetter} {
		if got := decideStopped(after); got != stepLeave {
			t.Errorf("after %d: got %d, want it left", after, got)
		}
	}
}

func TestDefaultBackoff(t *testing.T) {
	for failed, most := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 5: 1600 * time.Millisecond,
		9: 25600 * time.Millisecond, 10: 30 * time.Second, 1000: 30 * time.Second,
	} {
		for range 100 {
			if d := DefaultBackoff(failed); d < most/2 || d > most {
				t.Errorf("after %d failed attempts: %v, want %v to %v", failed, d, most/2, most)
			}
		}
	}
}
