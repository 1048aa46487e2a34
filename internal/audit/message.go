package audit

import (
	"slices"
	"time"
)

// UnknownTag is the Err of a settlement of a delivery that was settled before.
const UnknownTag = "unknown delivery tag"

// checkDelivered checks that a message that is settled is not delivered.
func (m *model) checkDelivered(e Event) {
	if settled := m.copies[e.Copy].settled; settled != "" {
		m.violated("settled", "%s was delivered after its %s", e.Copy, settled)
	}
}

// checkSettlement checks what reached the broker.
func (m *model) checkSettlement(msg *message, e Event) {
	if e.Decision != Ack && e.Decision != Requeue && e.Decision != DeadLetter {
		m.violated("settled", "%s was settled with %s", e.Copy, e.Decision)
	}
	if !e.Accepted {
		if e.Err == UnknownTag {
			m.violated("settled", "delivery tag %d was settled twice", e.Tag)
		}
		return
	}
	s := m.process(e.Process).session(e.Session)
	var at []*attempt
	for _, a := range msg.attempts {
		if a.session == s && (a.tag == e.Tag || a.tag == 0) { // 0: it did not run
			at = append(at, a)
		}
	}
	m.checkSettled(e, at)
	if e.Decision == DeadLetter {
		m.checkCauses(msg, e.At)
		msg.dead = append(msg.dead, e)
	}
	if c := m.copies[e.Copy]; c != nil && e.Decision != Requeue {
		c.settled = e.Decision
		c.finish(e.At)
	}
}

// goesOn reports whether the store said of a delivery that a copy goes on instead of it.
func (a *attempt) goesOn() bool {
	return slices.ContainsFunc(a.steps, func(e Event) bool {
		return e.Code == ReplyMove || e.Code == ReplySuperseded
	})
}

// checkFinished checks that no copy is handled again, once the success of one that was moved is in the store.
// It is not promised if two messages share the id, if a consumer has no delay queues, or if the store or the broker
// forgot.
func (m *model) checkFinished(msg *message, a *attempt) {
	if !msg.finished.IsZero() && msg.copies < 2 && msg.forgets == 0 && len(m.losses) == 0 && !m.plan.Mixed {
		m.violated("bound", "%s was handled after the success of a copy was recorded: %s", msg.id, m.storyOf(a))
	}
}

// checkSettled checks that what is acked was handled, and what is dead-lettered was exhausted in the store's words.
// The attempts are those of the delivery.
func (m *model) checkSettled(e Event, attempts []*attempt) {
	msg := m.message(e.ID)
	switch e.Decision {
	case Ack:
		if !slices.ContainsFunc(attempts, func(a *attempt) bool { return a.outcome == OK || a.goesOn() }) {
			m.violated("lost", "%s was acked, and no attempt of that delivery had handled it: %s", e.ID, m.story(msg))
		}
	case DeadLetter:
		excused := msg.id == "" || e.Cause == Rejected || e.Kind == Settled && (msg.rejected || msg.mistaken)
		if !excused && !slices.ContainsFunc(attempts, (*attempt).exhausted) {
			m.violated("answered", "%s was dead-lettered without an answer: %s", e.ID, m.story(msg))
		}
	}
}

// checkLoss checks the rule lost. One loss is the broker's: a classic queue hands its dead letters over without waiting
// for a confirm. One that is on its way when the broker is killed may be in neither queue after it (1 of 8,248 in six
// kills of 4.0.5, decided on 8 ms before). So may one that follows the broker's start before the dead-letter queue has
// a leader (20 of 8,183 in 13 starts of 3.10.8, within half a second; all measured). A quorum queue keeps its own until
// the other has them.
func (m *model) checkLoss(msg *message) {
	handled := slices.ContainsFunc(msg.runs, func(a *attempt) bool { return a.outcome == OK })
	switch {
	case !msg.confirmed || handled || len(msg.dead) > 0:
	case m.dropped(msg):
		m.report.Dropped++
	default:
		m.violated("lost", "%s (%s) was confirmed and neither handled nor dead-lettered; it ran %d times", msg.id, msg.do,
			len(msg.runs))
	}
}

func (m *model) dropped(msg *message) bool {
	return m.plan.Type == "classic" && slices.ContainsFunc(msg.attempts, func(a *attempt) bool {
		e, ok := a.decidedAs(DeadLetter)
		return ok && slices.ContainsFunc(m.deaf, func(s span) bool { return !e.At.Before(s.from) && !e.At.After(s.to) })
	})
}

// checkDeadLetters checks what was found in the dead-letter queue.
func (m *model) checkDeadLetters(msg *message) {
	if len(msg.dead) == 0 || m.plan.Complete { // then each was checked when it was settled
		return
	}
	if reason := msg.dead[0].Outcome; reason != Rejected {
		m.violated("causes", "%s was dead-lettered by the broker itself: %s", msg.id, reason)
		return
	}
	m.checkCauses(msg, m.now)
}

// checkCauses checks that a dead letter has as many failed attempts as the limit: those of the store's replies, and
// those in its records.
func (m *model) checkCauses(msg *message, at time.Time) {
	if msg.id == "" || msg.rejected || msg.mistaken || msg.skipped || msg.early {
		return
	}
	causes := 0
	for _, a := range msg.attempts {
		reversed := a.crashed && (msg.copies > 1 || m.failing(a) || a.countable) // after the tombstone was written
		if a.counted() || a.times(StepFail) > 0 || reversed || m.reversedLate(msg, a) || m.lostTrace(a, at) {
			causes++
		}
	}
	for token, kind := range msg.kinds {
		if kind == 'c' && m.attempts[token] == nil { // killed between START and what it recorded
			causes++
		}
	}
	if causes < m.limit() {
		m.violated("causes", "%s (%s) was dead-lettered with %d failed attempts of %d: %s", msg.id, msg.do, causes, m.limit(),
			m.story(msg))
	}
}

// reversedLate is what a.crashed knows of a history that is complete: the attempt was counted as a crash when its
// session was lost, maybe as the last, and its process ended it after that. It had failed, so the count was right but
// for its cause.
func (m *model) reversedLate(msg *message, a *attempt) bool {
	_, ended := a.answered(StepEnd, "")
	return !m.plan.Complete && ended && m.failing(a) && a.askedIsolated() && m.sessionLost(a) && msg.kinds[a.token] == 'e'
}

// lostTrace reports whether the attempt may have been counted in a record that the store has lost since, and no process
// lived to write that down: it failed and its process died before the answer; or it was to run isolated, and its
// process died, or stopped without reaching the store.
func (m *model) lostTrace(a *attempt, at time.Time) bool {
	if m.lossesBetween(a.began, at) == 0 {
		return false
	}
	unheard := m.died(a) || slices.ContainsFunc(a.steps, func(e Event) bool {
		return e.Step == StepFail && e.Code == ""
	})
	return unheard && m.failing(a) || a.askedIsolated() && (m.died(a) || a.left()) || a.isolated() && a.countable
}

// counted reports whether the store counted the attempt: as a failure by its own word, or as a crash by another's.
func (a *attempt) counted() bool {
	_, failed := a.answered(StepFail, "")
	return failed || a.kind != 0
}

// checkRuns checks the bound, and that each run but one has a reason for not being the only one. That one need not be
// the last to begin: a consumer whose session was lost without its knowledge may run what it has for a while. A message
// without an id runs again if the broker forgot that it had delivered it.
func (m *model) checkRuns(msg *message) {
	if len(msg.runs) == 0 {
		return
	}
	returned, unexplained := 0, 0
	for i, a := range msg.runs {
		until := m.now
		if i < len(msg.runs)-1 {
			until = msg.runs[i+1].began
		}
		n := m.returns(a, until)
		returned += n
		if n == 0 && !a.counted() && !m.died(a) && !a.crashedRemotely() {
			unexplained++
		}
	}
	if unexplained > max(msg.copies, 1)+msg.forgets {
		m.violated("bound", "%s (%s) ran again with no reason: %s", msg.id, msg.do, m.story(msg))
	}
	if most := m.bound(msg, returned); len(msg.runs) > most {
		m.violated("bound", "%s (%s) ran %d times, of %d allowed (%d returns, %d losses of the store, %d copies): %s",
			msg.id, msg.do, len(msg.runs), most, returned, len(m.losses), msg.copies, m.story(msg))
	}
}

// bound is the number of runs that a message may have. Copies share a limit, but the first delivery of one may begin
// another, and one may be running when the other reaches the limit. A loss of the store takes back the counts, the one
// shared run, and another if a START that was already answered SUSPECT then replaces its open attempt.
func (m *model) bound(msg *message, returned int) int {
	copies := max(msg.copies, 1)
	if msg.id == "" {
		return copies + msg.forgets + returned
	}
	each := m.limit() + 2
	losses := m.lossesBetween(msg.attempts[0].heard, msg.runs[len(msg.runs)-1].began)
	return (copies+msg.renewals)*(each+copies-1) + msg.forgets + (m.limit()+2)*losses + returned
}

// returns is the number of runs that an attempt allows beyond the limit, because it went back to the queue uncounted.
// Until is when the next one began.
func (m *model) returns(a *attempt, until time.Time) int {
	if a.id == "" && a.outcome != NotCounted {
		return 0
	}
	lost, died := m.sessionLost(a), m.died(a)
	ended := slices.ContainsFunc(a.written, func(e Event) bool { return e.Step == StepEnd && !e.Succeeded })
	switch {
	case a.beside() && died: // its FAIL may arrive after the next run began, and its crash is not counted
		return 1
	case m.plan.Complete && a.kind != 0, !m.plan.Complete && a.counted():
		return 0
	case a.outcome == OK && (lost || died):
		return 2 // its ack was lost, and the suspicion forgotten
	case lost, ended, a.left(), m.upset(a.began, until):
		return 1
	case a.outcome == NotCounted, a.takenBack() && !a.crashedRemotely(), a.outcome == Crashed && a.beside():
		return 1
	case (died || a.outcome == Crashed) && m.plan.Isolation == IsolationOff:
		return 1
	}
	return 0
}

// checkOnce checks the rule settled. An ack counts if its session did not end before the broker had surely taken it.
func (m *model) checkOnce(msg *message) {
	if len(msg.dead) == 0 || msg.copies > 1 {
		return
	}
	sent := 0
	for _, a := range msg.attempts {
		forGood := !m.sessionLost(a) && !m.died(a)
		if _, ok := a.decidedAs(DeadLetter); ok && forGood {
			sent++
		}
		if e, ok := a.decidedAs(Ack); ok && forGood && !m.upset(e.At, m.now) {
			m.violated("settled", "%s was acked by attempt %s and dead-lettered: %s", msg.id, a.token, m.story(msg))
		}
	}
	if len(msg.dead) > 1 && msg.moves == 0 && (sent > 1 || len(m.upsets) == 0 &&
		m.report.FaultsByKind[BrokerRestart] == 0) {
		m.violated("settled", "%s is %d times in the dead-letter queue: %s", msg.id, len(msg.dead), m.story(msg))
	}
}
