package audit

import (
	"slices"
	"time"
)

// leftBehindAfter is how long a handler has to return once its context is cancelled. Then it is abandoned.
const leftBehindAfter = 2 * time.Second

func (s *session) leave(from time.Time) {
	if s.leftFrom.IsZero() || from.Before(s.leftFrom) {
		s.leftFrom = from
	}
}

// drain has every session of a process end.
func (p *process) drain(at time.Time, timeout time.Duration) {
	for _, s := range p.sessions {
		s.leave(at.Add(timeout + leftBehindAfter))
	}
}

// endSession decides which attempts of a session may be counted as crashes.
func (m *model) endSession(p *process, s *session) {
	if p.exited.IsZero() {
		m.lose(p, func(a *attempt) bool { return a.session == s })
	}
	s.gone = m.now
}

// endProcess decides which attempts of a process may be counted as crashes.
func (m *model) endProcess(p *process, e Event) {
	if e.Token != "" {
		p.killer = m.attempt(e)
		m.spare(p)
	}
	m.lose(p, func(*attempt) bool { return true })
	p.exited = e.At
}

// spare notes which attempts must not be counted as crashes although they may be open: another attempt kills their
// process. What remains is a first delivery that kills while the gate is closed: the store owed an answer for as long
// as a step is repeated, or the session of the attempt had ended, which cuts that short.
func (m *model) spare(p *process) {
	for _, a := range p.attempts {
		if a.id == p.killer.id || a.outcome == Crashed || m.failing(a) {
			continue
		}
		since := a.unanswered()
		inTime := m.now.Before(since.Add(answerWithin)) && a.session.gone.IsZero()
		a.innocent = !p.killer.first || since.IsZero() || inTime
	}
}

// lose marks those attempts that may be counted as crashes among those that lose their session or process now.
func (m *model) lose(p *process, lost func(*attempt) bool) {
	for _, a := range p.attempts {
		if lost(a) && !a.innocent && (m.failing(a) || !a.unanswered().IsZero() || m.onlyHandler(a)) {
			a.countable = true
		}
	}
}

// onlyHandler reports whether no other handler runs in a's process.
func (m *model) onlyHandler(a *attempt) bool {
	return !slices.ContainsFunc(a.process.runs, func(x *attempt) bool { return x != a && x.ended.IsZero() })
}

// died reports whether the attempt's process was gone without having made sure of its acks.
func (m *model) died(a *attempt) bool { return !a.process.clean && !a.process.exited.IsZero() }

// sessionLost reports whether the broker took back the delivery of the attempt.
func (a *attempt) sessionLost() bool { return !a.session.gone.IsZero() }

func (m *model) lossesBetween(from, to time.Time) int {
	n := 0
	for _, at := range m.losses {
		if at.After(from.Add(-time.Second)) && at.Before(to.Add(time.Second)) {
			n++
		}
	}
	return n
}

// leftBehind reports whether a handler that runs was abandoned by then.
func (a *attempt) leftBehind(at time.Time) bool {
	deadline := a.until.Add(leftBehindAfter)
	return !at.Before(deadline) || !a.session.leftFrom.IsZero() && !at.Before(a.session.leftFrom)
}

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
