package audit

import (
	"slices"
	"time"
)

// answerWithin is how long the isolation lock is held for a step that has no reply. Until then no other attempt begins,
// so no other message's kill can be counted against the isolated one.
const answerWithin = 2 * time.Second

// checkIsolated checks that an isolated attempt has no other handler beside it, or none but abandoned ones if it was
// opened so.
func (m *Model) checkIsolated(a *Attempt) {
	if a.Began.IsZero() || !a.isolated() && !a.Beside() {
		return
	}
	for _, x := range a.Process.Runs {
		if x == a || !before(x.Began, a.end()) || !before(a.Began, x.end()) {
			continue
		}
		earlier, later := a, x
		if x.Began.Before(a.Began) {
			earlier, later = x, a
		}
		if later.isolated() || !earlier.leftBehind(later.Began) {
			m.Violated("isolated", "%s ran beside %s, and one of them was to be isolated: %s, beside %s", later.ID, earlier.ID,
				later, earlier)
			return
		}
	}
}

// before compares two times, of which the second may be zero: never.
func before(a, b time.Time) bool { return b.IsZero() || a.Before(b) }

// checkGate checks that a process begins no other attempt that took a START while the store owes a reply to a step of
// an isolated one.
func (m *Model) checkGate(a *Attempt) {
	if !a.any(opensIsolated) {
		return
	}
	for _, s := range m.owed(a) {
		for _, x := range a.Process.Runs {
			_, started := x.answered(StepStart, ReplyRun)
			if x != a && started && x.Began.After(s.from) && x.Began.Before(s.to) {
				m.Violated("isolated", "the store owed %s a reply, and the attempt of %s began: %s, beside %s", a.ID,
					x.ID, a, x)
				return
			}
		}
	}
}

// span is a time.
type span struct{ from, to time.Time }

// owed returns the times in which the store owed a reply to a step of an isolated attempt: to START, to BEGUN, and
// to the step that closes the attempt. A reply that never came is owed until the process is gone.
func (m *Model) owed(a *Attempt) (spans []span) {
	for _, asks := range []func(Event) bool{opensIsolated, begins, closes} {
		i := slices.IndexFunc(a.steps, asks)
		if i < 0 {
			continue
		}
		if !mayHaveOpened(a.steps[:i]) && !opensIsolated(a.steps[i]) {
			continue // END closes a START that was shared, or opened nothing
		}
		times := span{a.steps[i].At, m.now}
		if !a.Process.Exited.IsZero() {
			times.to = a.Process.Exited
		}
		for _, e := range a.steps[i:] {
			if e.Code != "" && (asks(e) || closes(e)) {
				times.to = e.At
				break
			}
		}
		spans = append(spans, times)
	}
	return spans
}

func opensIsolated(e Event) bool { return e.Step == StepStart && e.Isolated }

// mayHaveOpened reports whether the last isolated START opened the attempt, or may have because its reply is missing.
// An earlier START without a reply may arrive after the last one. It reserves the attempt at most, so no crash is
// counted.
func mayHaveOpened(steps []Event) bool {
	for _, e := range slices.Backward(steps) {
		if opensIsolated(e) {
			return e.Code == "" || e.Code == ReplyRun
		}
	}
	return false
}

func begins(e Event) bool { return e.Step == StepBegun }

func closes(e Event) bool { return e.Step == StepEnd || e.Step == StepFail }

// checkCrashCounted checks the rule isolated at the step that counts a crash.
func (m *Model) checkCrashCounted(by, a *Attempt, msg *Message, e Event) {
	a.crashed = true
	senderGone := e.Late || !by.Session.Gone.IsZero()
	if !a.Process.Died() && e.Record.State == ReplyExhausted && senderGone {
		msg.mistaken = true
	}
	// A START that arrives after the session of its sender has ended can count a crash of an attempt that runs: the
	// attempt's own FAIL or END reverses it. Two copies of a message can do the same to each other, and a store that lost
	// its last writes may have forgotten how the attempt ended.
	excused := a.countable || m.failing(a) || senderGone || msg.Copies > 1 || len(m.losses) > 0
	why := ""
	switch {
	case e.Step != StepStart || !e.Isolated && !e.Beside || by == a:
		why = e.Step + " counted it"
	case !a.isolated():
		why = "it was not isolated"
	case m.plan.Isolation == IsolationOff:
		why = "crashes are not counted"
	case a.innocent && msg.Copies == 1 && len(m.losses) == 0:
		why = "another message killed its process"
	case !excused:
		why = "it had not crashed"
	}
	if why != "" {
		m.Violated("isolated", "a crash of %s was counted, but %s: %s", e.ID, why, a)
	}
}

// checkBegun checks that an attempt which was counted as a crash had begun. The store cannot know whether the reply
// to BEGUN arrived, so it counts an attempt whose process was killed before: that is reported.
func (m *Model) checkBegun(a *Attempt) {
	switch {
	case !a.Began.IsZero():
	case a.asked:
		m.Unbegun = append(m.Unbegun, a.ID+": "+a.String())
	default:
		m.Violated("begun", "a crash of %s was counted, and its handler was not to begin: %s", a.ID, a)
	}
}

// checkBegan checks that an isolated handler began only after the reply to its BEGUN.
func (m *Model) checkBegan(a *Attempt) {
	if a.Began.IsZero() || !a.asked {
		return
	}
	e, ok := find(a.steps, func(e Event) bool { return begins(e) && e.Code == ReplyBegun })
	if !ok || e.At.After(a.Began) {
		m.Violated("begun", "%s began before the reply to its BEGUN: %s", a.ID, a)
	}
}
