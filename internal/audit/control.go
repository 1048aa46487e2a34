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

// checkSkipped checks that a step dead-letters a skipped message, with the operator's reason.
func (m *model) checkSkipped(e Event) {
	was, is := e.before(), Record{}
	if was.State != "skip" {
		return
	}
	if e.Record != nil {
		is = *e.Record
	}
	of, _ := kinds(was.Tokens)
	begun := was.OpenToken == e.Token || of[e.Token] != 0
	switch {
	case e.Step == StepStart && begun, e.Step == StepBegun:
	case e.Step == StepEnd:
		if is.State != "skip" && !e.Succeeded {
			m.violated("skip", "END made the skipped message %s %q", e.ID, is.State)
		}
	case e.Code != ReplyExhausted || is.State != ReplyExhausted || is.Cause != "skipped":
		m.violated("skip", "%s of the skipped message %s: %s, cause %q", e.Step, e.ID, e.Code, is.Cause)
	}
}
