package audit

import (
	"cmp"
	"slices"
	"time"
)

// checkDrained is I11.
func (m *model) checkDrained(r *Report) {
	var quiet, drained time.Time
	for _, e := range m.quiet {
		switch e.Kind {
		case Quiet:
			quiet = e.At
		case Drained:
			drained = e.At
		default:
			r.violated("I11", "not drained: %s", e.Err)
		}
	}
	took := drained.Sub(quiet)
	r.DrainSeconds = max(0, took.Round(time.Second/10).Seconds())
	switch {
	case quiet.IsZero() || drained.IsZero():
		r.violated("I11", "the queue was never seen drained")
	case took > m.plan.DrainWithin:
		r.violated("I11", "it took %v to drain the queue, and may take %v", took, m.plan.DrainWithin)
	}
}

// unaware is for how long a process may not know that its connection was cut.
const unaware = 100 * time.Millisecond

// checkOrder is I6, where order is promised.
func (m *model) checkOrder(r *Report) {
	if m.plan.Lanes == 0 {
		r.Unchecked = append(r.Unchecked, "I6")
		return
	}
	lanes := make([][]*message, m.plan.Lanes)
	for _, msg := range m.messages {
		if msg.confirmed && msg.copies == 1 && len(msg.runs) > 0 {
			lane := msg.seq % len(lanes)
			lanes[lane] = append(lanes[lane], msg)
		}
	}
	for _, lane := range lanes {
		slices.SortFunc(lane, func(a, b *message) int { return cmp.Compare(a.seq, b.seq) })
		m.checkLane(r, lane)
	}
}

func (m *model) checkLane(r *Report, inOrder []*message) {
	var before *message // the one among those before that was done last
	for _, msg := range inOrder {
		for _, run := range msg.runs {
			if before != nil && run.began.Before(m.done(before)) && !m.wasCut(run) {
				r.violated("I6", "%s was handled before %s was done", msg.id, before.id)
				break
			}
		}
		if before == nil || m.done(msg).After(m.done(before)) {
			before = msg
		}
	}
}

// wasCut reports whether a run began when its connection may have been lost without its process knowing.
func (m *model) wasCut(a *attempt) bool {
	lost, ok := m.process(a.process).lost[a.session]
	return ok && a.began.After(lost.Add(-unaware))
}

// never is later than anything that happened.
var never = time.Unix(1<<40, 0)

// done is when a message was first handled or dead-lettered.
func (m *model) done(msg *message) time.Time {
	first := never
	for _, a := range msg.attempts {
		if a.outcome == OK && a.ended.Before(first) {
			first = a.ended
		}
		if e, ok := a.decidedAs("dead-letter"); ok && e.At.Before(first) {
			first = e.At
		}
		if e, ok := a.answered("fail", "exhausted"); ok && len(msg.dead) > 0 && e.At.Before(first) && m.died(a) {
			first = e.At // killed before it wrote down the dead letter
		}
	}
	return first
}
