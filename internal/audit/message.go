package audit

import (
	"cmp"
	"slices"
	"time"
)

// UnknownTag is the Err of a settlement of a delivery that was settled before.
const UnknownTag = "unknown delivery tag"

// checkSettlement checks the settlement that reached the broker: an acked message was handled, and a dead-lettered one
// was exhausted by the store's reply to an attempt of the delivery.
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
	var at []*attempt // of the delivery
	for _, a := range msg.attempts {
		if a.session == s && (a.tag == e.Tag || a.tag == 0) { // 0: it did not run
			at = append(at, a)
		}
	}
	switch e.Decision {
	case Ack:
		if !slices.ContainsFunc(at, func(a *attempt) bool { return a.outcome == OK || a.goesOn() }) {
			m.violated("lost", "%s was acked, and no attempt of that delivery had handled it: %s", e.ID, m.story(msg))
		}
	case DeadLetter:
		excused := msg.id == "" || msg.rejected || msg.mistaken
		if !excused && !slices.ContainsFunc(at, (*attempt).exhausted) {
			m.violated("answered", "%s was dead-lettered without an answer: %s", e.ID, m.story(msg))
		}
		if !msg.exhausted && msg.id != "" && !msg.rejected && !msg.skipped {
			m.violated("causes", "%s (%s) was dead-lettered without a tombstone: %s", msg.id, msg.do, m.story(msg))
		}
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

// checkLoss checks that a confirmed message was handled or dead-lettered.
func (m *model) checkLoss(msg *message) {
	handled := slices.ContainsFunc(msg.runs, func(a *attempt) bool { return a.outcome == OK })
	if msg.confirmed && !handled && len(msg.dead) == 0 {
		m.violated("lost", "%s (%s) was confirmed and neither handled nor dead-lettered; it ran %d times", msg.id, msg.do,
			len(msg.runs))
	}
}

// counted reports whether the store counted the attempt: as a failure by its own word, or as a crash by another's.
func (a *attempt) counted() bool {
	_, failed := a.answered(StepFail, "")
	return failed || a.kind != 0
}

// checkRuns checks the bound, and that each run but one has a reason for not being the only one. That one need not be
// the last to begin: a consumer whose session was lost without its knowledge may run its deliveries for a while. A
// message without an id runs again if the broker forgot that it had delivered it.
func (m *model) checkRuns(msg *message) {
	if len(msg.runs) == 0 {
		return
	}
	returned, unexplained := 0, 0
	for _, a := range msg.runs {
		n := m.returns(a)
		returned += n
		if n == 0 && !a.counted() && !m.died(a) {
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
func (m *model) returns(a *attempt) int {
	if a.id == "" && a.outcome != NotCounted {
		return 0
	}
	lost, died := a.sessionLost(), m.died(a)
	ended := slices.ContainsFunc(a.written, func(e Event) bool { return e.Step == StepEnd && !e.Succeeded })
	switch {
	case a.beside() && died: // its FAIL may arrive after the next run began, and its crash is not counted
		return 1
	case a.kind != 0:
		return 0
	case a.outcome == OK && (lost || died):
		return 2 // its ack was lost, and the suspicion forgotten
	case lost, ended, a.outcome == NotCounted, a.outcome == Crashed && a.beside():
		return 1
	case (died || a.outcome == Crashed) && m.plan.Isolation == IsolationOff:
		return 1
	}
	return 0
}

// checkOrder checks the order, where it is promised.
func (m *model) checkOrder() {
	if !m.plan.Ordered {
		return
	}
	lanes := map[string][]*published{}
	for _, c := range m.copies {
		if c.of.confirmed {
			lanes[c.lane] = append(lanes[c.lane], c)
		}
	}
	for _, lane := range lanes {
		slices.SortFunc(lane, func(a, b *published) int { return cmp.Compare(a.seq, b.seq) })
		m.checkLane(lane)
	}
}

func (m *model) checkLane(inOrder []*published) {
	var before *published // the one among those before that was done last
	for _, c := range inOrder {
		for _, run := range c.of.runs {
			if run.copy == c.name && before != nil && run.began.Before(done(before)) && !run.inLostSession() {
				m.violated("order", "%s was handled before %s was done", c.name, before.name)
				break
			}
		}
		if before == nil || done(c).After(done(before)) {
			before = c
		}
	}
}

// inLostSession reports whether a run began when its session was lost, which its process may not have known.
func (a *attempt) inLostSession() bool {
	return !a.session.gone.IsZero() && !a.began.Before(a.session.gone)
}

// never is later than anything that happened.
var never = time.Unix(1<<40, 0)

// done is when a message was first handled or dead-lettered.
func done(c *published) time.Time {
	if c.done.IsZero() {
		return never
	}
	return c.done
}
