package audit

import (
	"cmp"
	"slices"
	"time"
)

// checkDrained checks that the queue was drained in time.
func (m *model) checkDrained() {
	var quiet, drained time.Time
	for _, e := range m.quiet {
		switch e.Kind {
		case Quiet:
			quiet = e.At
		case Drained:
			drained = e.At
		default:
			m.violated("drained", "not drained: %s", e.Err)
		}
	}
	took := drained.Sub(quiet)
	m.report.DrainSeconds = max(0, took.Round(time.Second/10).Seconds())
	switch {
	case m.plan.Complete: // the schedule says how long it waits
	case quiet.IsZero() || drained.IsZero():
		m.violated("drained", "the queue was never seen drained")
	case took > m.plan.DrainWithin:
		m.violated("drained", "it took %v to drain the queue, and may take %v", took, m.plan.DrainWithin)
	}
}

// checkOrder checks the order, where it is promised.
func (m *model) checkOrder() {
	if !m.plan.Ordered {
		m.report.Unchecked = append(m.report.Unchecked, "order")
		return
	}
	lanes := map[string][]*published{}
	for _, c := range m.copies {
		if c.of.confirmed && (c.name != c.of.id || c.of.copies == 1) { // else its runs cannot be told from those of the other
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
			if run.copy == c.name && before != nil && run.began.Before(m.done(before)) && !run.inLostSession() {
				m.violated("order", "%s was handled before %s was done", c.name, before.name)
				break
			}
		}
		if before == nil || m.done(c).After(m.done(before)) {
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
func (m *model) done(c *published) time.Time {
	first := never
	if !c.done.IsZero() {
		first = c.done
	}
	for _, a := range c.of.attempts {
		e, ok := a.answered(StepFail, ReplyExhausted)
		if ok && !m.plan.Complete && len(c.of.dead) > 0 && e.At.Before(first) && m.died(a) {
			first = e.At // killed before it recorded the dead letter
		}
	}
	return first
}
