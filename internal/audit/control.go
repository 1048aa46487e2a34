package audit

import "time"

const (
	pauseWithin = 2 * time.Second // a pause is in force on every process that hears from the store
	beginWithin = time.Second     // so long the begin of a handler that was called may take
)

func (m *model) hearPause(p *process, e Event) {
	if !e.Paused {
		p.pauseHeard = time.Time{}
	} else if p.pauseHeard.IsZero() {
		p.pauseHeard = e.At
		p.drain(e.At, m.plan.DrainTimeout)
	}
}

// checkPaused checks that no attempt begins after its process has heard of a pause, or must have.
func (m *model) checkPaused(a *attempt) {
	if heard := a.process.pauseHeard; !heard.IsZero() && a.began.After(heard.Add(beginWithin)) {
		m.violated("pause", "%s began %v after its process heard of the pause", a.id, a.began.Sub(heard))
	}
	if !m.paused.IsZero() && a.began.After(m.paused.Add(pauseWithin+beginWithin)) && a.process.unsure.Before(m.paused) {
		m.violated("pause", "%s began %v after the pause", a.id, a.began.Sub(m.paused))
	}
}
