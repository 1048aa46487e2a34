package audit

import (
	"cmp"
	"slices"
	"time"
)

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
