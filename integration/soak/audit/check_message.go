package audit

import (
	"slices"
	"strings"
)

// checkLoss is I1. One loss is the broker's: a classic queue hands its dead letters over without waiting for a confirm. One
// that is on its way when the broker is killed may be in neither queue after it (1 of 8,248 in six kills of 4.0.5, decided on
// 8 ms before), and so may one that follows the broker's start before the dead-letter queue has a leader (20 of 8,183 in 13
// starts of 3.10.8, within half a second; all measured). A quorum queue keeps its own until the other has them.
func (m *model) checkLoss(r *Report, msg *message) {
	handled := false
	for _, a := range msg.runs {
		handled = handled || a.outcome == OK
	}
	switch {
	case !msg.confirmed || handled || len(msg.dead) > 0:
	case m.dropped(msg):
		r.Dropped++
	default:
		r.violated("I1", "%s (%s) was confirmed and neither handled nor dead-lettered; it ran %d times", msg.id, msg.do, len(msg.runs))
	}
	for _, a := range msg.attempts {
		if _, acked := a.decidedAs("ack"); acked && a.outcome != OK {
			r.violated("I1", "%s was acked by attempt %s, whose handler ended as %q", msg.id, a.token, a.outcome)
		}
	}
}

func (m *model) dropped(msg *message) bool {
	return m.plan.Type == "classic" && slices.ContainsFunc(msg.attempts, func(a *attempt) bool {
		e, ok := a.decidedAs("dead-letter")
		return ok && slices.ContainsFunc(m.deaf, func(s span) bool { return !e.At.Before(s.from) && !e.At.After(s.to) })
	})
}

// checkDeadLetter is I2. The counts are those of the store's replies, and those in the record.
func (m *model) checkDeadLetter(r *Report, msg *message) {
	if len(msg.dead) == 0 {
		return
	}
	if reason := msg.dead[0].Outcome; reason != "rejected" {
		r.violated("I2", "%s was dead-lettered by the broker itself: %s", msg.id, reason)
		return
	}
	if msg.rejected() {
		return
	}
	counted := 0
	for _, a := range msg.attempts {
		if m.counted(a) || m.lostTrace(a) {
			counted++
		}
	}
	for token := range msg.kinds {
		if m.attempts[token] == nil && msg.kinds[token] == 'c' { // killed between START and what it wrote down
			counted++
		}
	}
	if counted < m.limit() {
		r.violated("I2", "%s (%s) was dead-lettered with %d failed attempts of %d: %s", msg.id, msg.do, counted, m.limit(), m.story(msg))
	}
}

func (msg *message) rejected() bool {
	return slices.ContainsFunc(msg.runs, func(a *attempt) bool { return a.outcome == Rejected })
}

// lostTrace reports whether the attempt may have been counted in a record that the store has lost since, and no process lived
// to write that down: it failed and its process died before the answer; or it was to run isolated, and its process died, or
// stopped without reaching the store.
func (m *model) lostTrace(a *attempt) bool {
	unheard := m.died(a) || slices.ContainsFunc(a.steps, func(e Event) bool { return e.Step == "fail" && e.Verdict == "" })
	return m.lossesBetween(a.began, m.last) > 0 && (unheard && m.failed(a) || a.askedAlone() && (m.died(a) || a.left()))
}

// failed reports whether the attempt is to be counted: a deaf handler's is at its deadline, and may not live to return.
func (m *model) failed(a *attempt) bool {
	switch a.outcome {
	case Failed, Panicked, TimedOut:
		return true
	case "":
		return !a.began.IsZero() && m.died(a) && m.process(a.process).exited.Sub(a.began) >= m.plan.HandlerTimeout
	}
	return false
}

// checkRuns is I3: the bound, and that each run but one has a reason for not being the only one. That one need not be the
// last to begin: a consumer whose session was lost without its knowledge may run what it has for a while.
func (m *model) checkRuns(r *Report, msg *message) {
	if len(msg.runs) == 0 {
		return
	}
	returned, unexplained := 0, 0
	last := msg.runs[len(msg.runs)-1]
	for i, a := range msg.runs {
		until := m.last
		if a != last {
			until = msg.runs[i+1].began
		}
		taken := m.sessionLost(a) || m.upset(a.began, until)
		switch {
		case m.counted(a):
		case a.left() || taken, a != last && a.outcome == OK && m.died(a): // the last: handled, and its ack lost
			returned++
		case m.diedBesideAbandoned(a):
			returned++
		case !m.died(a):
			unexplained++
		}
	}
	if unexplained > max(msg.copies, 1) {
		r.violated("I3", "%s (%s) ran again with no reason: %s", msg.id, msg.do, m.story(msg))
	}
	losses := m.lossesBetween(msg.runs[0].began, last.began)
	allowed := m.plan.MaxRetries + 3 + (m.limit()+1)*losses // a killer's first attempt on a fresh record is shared, and not counted
	most := max(msg.copies, 1)*allowed + returned
	if len(msg.runs) > most {
		r.violated("I3", "%s (%s) ran %d times, at most %d are allowed (%d returns, %d losses of the store, %d copies): %s",
			msg.id, msg.do, len(msg.runs), most, returned, losses, msg.copies, m.story(msg))
	}
}

// diedBesideAbandoned reports whether the process of an isolated attempt died while an abandoned handler ran. Such an attempt is
// not counted.
func (m *model) diedBesideAbandoned(a *attempt) bool { return a.beside() && m.died(a) }

// checkOnce is I12. An ack counts if its session did not end before the broker had surely taken it.
func (m *model) checkOnce(r *Report, msg *message) {
	if len(msg.dead) == 0 || msg.copies > 1 {
		return
	}
	sent := 0
	for _, a := range msg.attempts {
		if _, ok := a.decidedAs("dead-letter"); ok && m.settledForGood(a) {
			sent++
		}
		if e, ok := a.decidedAs("ack"); ok && m.settledForGood(a) && !m.upset(e.At, m.last) {
			r.violated("I12", "%s was acked by attempt %s and dead-lettered: %s", msg.id, a.token, m.story(msg))
		}
	}
	if len(msg.dead) > 1 && (sent > 1 || len(m.upsets) == 0 && m.faults["broker-restart"] == 0) {
		r.violated("I12", "%s is %d times in the dead-letter queue: %s", msg.id, len(msg.dead), m.story(msg))
	}
}

func (m *model) settledForGood(a *attempt) bool { return !m.sessionLost(a) && !m.died(a) }

// story tells what became of a message, for a person.
func (m *model) story(msg *message) string {
	var b strings.Builder
	for i, a := range msg.attempts {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(m.storyOf(a))
	}
	if msg.record != nil {
		b.WriteString("; record: " + msg.record.State + " " + msg.record.Tokens)
	}
	return b.String()
}
