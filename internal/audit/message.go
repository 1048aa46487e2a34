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
func (m *Model) checkSettlement(msg *Message, e Event) {
	if e.Decision != Ack && e.Decision != Requeue && e.Decision != DeadLetter {
		m.Violated("settled", "%s was settled with %s", e.Copy, e.Decision)
	}
	if !e.Accepted {
		if e.Err == UnknownTag {
			m.Violated("settled", "delivery tag %d was settled twice", e.Tag)
		}
		return
	}
	s := m.Process(e.Process).Session(e.Session)
	var at []*Attempt // of the delivery
	for _, a := range msg.Attempts {
		if a.Session == s && (a.tag == e.Tag || a.tag == 0) { // 0: it did not run
			at = append(at, a)
		}
	}
	switch e.Decision {
	case Ack:
		if !slices.ContainsFunc(at, func(a *Attempt) bool { return a.Outcome == OK || a.goesOn() }) {
			m.Violated("lost", "%s was acked, and no attempt of that delivery had handled it: %s", e.ID, msg)
		}
	case DeadLetter:
		excused := msg.ID == "" || msg.rejected || msg.mistaken
		if !excused && !slices.ContainsFunc(at, (*Attempt).exhausted) {
			m.Violated("answered", "%s was dead-lettered without a reply: %s", e.ID, msg)
		}
		if !msg.exhausted && msg.ID != "" && !msg.rejected && !msg.skipped {
			m.Violated("causes", "%s (%s) was dead-lettered without a tombstone: %s", msg.ID, msg.Do, msg)
		}
		msg.Dead = append(msg.Dead, e)
	}
	if c := m.copies[e.Copy]; c != nil && e.Decision != Requeue {
		c.settled = e.Decision
		m.finishCopy(e.Copy, e.At)
	}
}

// goesOn reports whether the store said of a delivery that a copy goes on instead of it.
func (a *Attempt) goesOn() bool {
	return slices.ContainsFunc(a.steps, func(e Event) bool {
		return e.Code == ReplyMove || e.Code == ReplySuperseded
	})
}

// checkFinished checks that no copy is handled again, once the success of one that was moved is in the store.
// It is not promised if two messages share the id, if a consumer has no delay queues, or if the store or the broker
// forgot.
func (m *Model) checkFinished(msg *Message, a *Attempt) {
	if !msg.finished.IsZero() && msg.Copies < 2 && msg.forgets == 0 && len(m.losses) == 0 && !m.plan.Mixed {
		m.Violated("bound", "%s was handled after the success of a copy was recorded: %s", msg.ID, a)
	}
}

// Lost reports whether the message was confirmed, and neither handled nor dead-lettered.
func (msg *Message) Lost() bool { return msg.Confirmed && !msg.Handled() && len(msg.Dead) == 0 }

// checkLoss checks that a confirmed message was handled or dead-lettered.
func (m *Model) checkLoss(msg *Message) {
	if msg.Lost() {
		m.Violated("lost", "%s (%s) was confirmed and neither handled nor dead-lettered; it ran %d times", msg.ID, msg.Do,
			len(msg.Runs))
	}
}

// counted reports whether the store counted the attempt: as a failure by its own word, or as a crash by another's.
func (a *Attempt) counted() bool {
	_, failed := a.answered(StepFail, "")
	return failed || a.kind != 0
}

// checkRuns checks the bound, and that each run but one has a reason for not being the only one. That one need not be
// the last to begin: a consumer whose session was lost without its knowledge may run its deliveries for a while. A
// message without an id runs again if the broker forgot that it had delivered it.
func (m *Model) checkRuns(msg *Message) {
	if len(msg.Runs) == 0 {
		return
	}
	returned, unexplained := 0, 0
	for _, a := range msg.Runs {
		n := m.returns(a)
		returned += n
		if n == 0 && !a.counted() && !a.Process.Died() {
			unexplained++
		}
	}
	if unexplained > max(msg.Copies, 1)+msg.forgets {
		m.Violated("bound", "%s (%s) ran again with no reason: %s", msg.ID, msg.Do, msg)
	}
	m.CheckBound(msg, returned)
}

// CheckBound checks that a message ran as often as it may: some runs are allowed because it was returned uncounted.
// Copies share a limit, but the first delivery of one may begin another, and one may be running when the other reaches
// the limit. A loss of the store takes back the counts and the one shared run. It takes back another run if a START
// whose reply was SUSPECT then replaces its open attempt.
func (m *Model) CheckBound(msg *Message, returned int) {
	copies, losses := max(msg.Copies, 1), 0
	most := copies + msg.forgets + returned
	if msg.ID != "" {
		each := m.limit() + 2
		losses = m.lossesBetween(msg.Attempts[0].heard, msg.Runs[len(msg.Runs)-1].Began)
		most = (copies+msg.renewals)*(each+copies-1) + msg.forgets + each*losses + returned
	}
	if len(msg.Runs) > most {
		m.Violated("bound", "%s ran %d times, of %d allowed (%d returns, %d losses of the store, %d copies): %s", msg.ID,
			len(msg.Runs), most, returned, losses, msg.Copies, msg)
	}
}

// returns is the number of runs that an attempt allows beyond the limit, because it went back to the queue uncounted.
func (m *Model) returns(a *Attempt) int {
	if a.ID == "" && a.Outcome != NotCounted {
		return 0
	}
	lost, died := a.SessionLost(), a.Process.Died()
	ended := slices.ContainsFunc(a.written, func(e Event) bool { return e.Step == StepEnd && !e.Succeeded })
	switch {
	case a.Beside() && died: // its FAIL may arrive after the next run began, and its crash is not counted
		return 1
	case a.kind != 0:
		return 0
	case a.Outcome == OK && (lost || died):
		return 2 // its ack was lost, and the suspicion forgotten
	case lost, ended, a.Outcome == NotCounted, a.Outcome == Crashed && a.Beside():
		return 1
	case (died || a.Outcome == Crashed) && m.plan.Isolation == IsolationOff:
		return 1
	}
	return 0
}

// CheckOrder checks the order, where it is promised. Copies that have no names are left out: the runs of one cannot be
// told from those of another.
func (m *Model) CheckOrder() {
	if !m.plan.Ordered {
		return
	}
	lanes := map[string][]*published{}
	for _, c := range m.copies {
		if c.of.Confirmed && (c.named || c.of.Copies == 1) {
			lanes[c.lane] = append(lanes[c.lane], c)
		}
	}
	for _, lane := range lanes {
		slices.SortFunc(lane, func(a, b *published) int { return cmp.Compare(a.seq, b.seq) })
		m.checkLane(lane)
	}
}

func (m *Model) checkLane(inOrder []*published) {
	var before *published // the one among those before that was done last
	for _, c := range inOrder {
		for _, run := range c.of.Runs {
			if run.copy == c.name && before != nil && run.Began.Before(done(before)) && !run.inLostSession() {
				m.Violated("order", "%s was handled before %s was done: %s, before %s", c.name, before.name, c.of, before.of)
				break
			}
		}
		if before == nil || done(c).After(done(before)) {
			before = c
		}
	}
}

// inLostSession reports whether a run began when its session was lost, which its process may not have known.
func (a *Attempt) inLostSession() bool {
	return !a.Session.Gone.IsZero() && !a.Began.Before(a.Session.Gone)
}

// Never is later than anything that happened.
var Never = time.Unix(1<<40, 0)

// Done is when a message whose copies have no names was first handled or dead-lettered: long after the end, if never.
func (m *Model) Done(msg *Message) time.Time { return done(m.copies[msg.ID]) }

// done is when a copy was first handled or dead-lettered.
func done(c *published) time.Time {
	if c.done.IsZero() {
		return Never
	}
	return c.done
}
