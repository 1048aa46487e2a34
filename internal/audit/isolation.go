package audit

import (
	"slices"
	"time"
)

// answerWithin is how long the isolation lock is held for a step that the store does not answer. Until then nothing
// else runs, so no other message's kill can be counted against the undecided one.
const answerWithin = 2 * time.Second

// checkIsolated checks that an isolated attempt has no other handler beside it, or none but abandoned ones if it was
// opened so.
func (m *model) checkIsolated(a *attempt) {
	if a.began.IsZero() || !a.isolated() && !a.beside() {
		return
	}
	for _, x := range a.process.runs {
		if x == a || !before(x.began, a.end()) || !before(a.began, x.end()) {
			continue
		}
		earlier, later := a, x
		if x.began.Before(a.began) {
			earlier, later = x, a
		}
		if later.isolated() || !earlier.leftBehind(later.began) {
			m.violated("isolated", "%s ran beside %s, and one of them was to be isolated: %s, beside %s", later.id, earlier.id,
				m.storyOf(later), m.storyOf(earlier))
			return
		}
	}
}

// before compares two times, of which the second may be zero: never.
func before(a, b time.Time) bool { return b.IsZero() || a.Before(b) }

// checkGate checks that a process begins no other attempt that took a START while an isolated one is undecided.
func (m *model) checkGate(a *attempt) {
	if !a.any(opensIsolated) {
		return
	}
	for _, s := range m.undecided(a) {
		for _, x := range a.process.runs {
			_, started := x.answered(StepStart, ReplyRun)
			if x != a && started && x.began.After(s.from) && x.began.Before(s.to) {
				m.violated("isolated", "%s was undecided, and the attempt of %s began: %s, beside %s", a.id, x.id, m.storyOf(a),
					m.storyOf(x))
				return
			}
		}
	}
}

// span is a time.
type span struct{ from, to time.Time }

// undecided returns the times in which the store owed an answer to a step of an isolated attempt: to START, to
// BEGUN, and to the step that closes the attempt. An answer that never came is owed until the process is gone.
func (m *model) undecided(a *attempt) (spans []span) {
	for _, asks := range []func(Event) bool{opensIsolated, begins, closes} {
		i := slices.IndexFunc(a.steps, asks)
		if i < 0 {
			continue
		}
		if !mayHaveOpened(a.steps[:i]) && !opensIsolated(a.steps[i]) {
			continue // END closes a START that was shared, or opened nothing
		}
		owed := span{a.steps[i].At, m.now}
		if !a.process.exited.IsZero() {
			owed.to = a.process.exited
		}
		for _, e := range a.steps[i:] {
			if e.Code != "" && (asks(e) || closes(e)) {
				owed.to = e.At
				break
			}
		}
		spans = append(spans, owed)
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
func (m *model) checkCrashCounted(by, a *attempt, msg *message, e Event) {
	a.crashed = true
	senderGone := e.Late || !by.session.gone.IsZero()
	if !m.died(a) && e.Record.State == ReplyExhausted && senderGone {
		msg.mistaken = true
	}
	// A START that arrives after the session of its sender has ended can count a crash of an attempt that runs: the
	// attempt's own FAIL or END reverses it. Two copies of a message can do the same to each other, and a store that lost
	// its last writes may have forgotten how the attempt ended.
	excused := a.countable || m.failing(a) || senderGone || msg.copies > 1 || len(m.losses) > 0
	why := ""
	switch {
	case e.Step != StepStart || !e.Isolated && !e.Beside || by == a:
		why = e.Step + " counted it"
	case !a.isolated():
		why = "it was not isolated"
	case m.plan.Isolation == IsolationOff:
		why = "crashes are not counted"
	case a.innocent && msg.copies == 1 && len(m.losses) == 0:
		why = "another message killed its process"
	case !excused:
		why = "it had not crashed"
	}
	if why != "" {
		m.violated("isolated", "a crash of %s was counted, but %s: %s", e.ID, why, m.storyOf(a))
	}
}

// checkBegun checks that an attempt which was counted as a crash had begun. The store cannot know whether the answer
// to BEGUN arrived, so it counts an attempt whose process was killed before: that is reported.
func (m *model) checkBegun(a *attempt) {
	switch {
	case !a.began.IsZero():
	case a.asked:
		m.report.Unbegun = append(m.report.Unbegun, a.id+": "+m.storyOf(a))
	default:
		m.violated("begun", "a crash of %s was counted, and its handler was not to begin: %s", a.id, m.storyOf(a))
	}
}

// checkBegan checks that an isolated handler began only after the reply to its BEGUN.
func (m *model) checkBegan(a *attempt) {
	if a.began.IsZero() || !a.asked {
		return
	}
	e, ok := find(a.steps, func(e Event) bool { return begins(e) && e.Code == ReplyBegun })
	if !ok || e.At.After(a.began) {
		m.violated("begun", "%s began before its BEGUN was answered: %s", a.id, m.storyOf(a))
	}
}
