package audit

import (
	"slices"
	"time"
)

// leftBehindAfter is how long a handler has to return once its context is cancelled. Then it is abandoned.
const leftBehindAfter = 2 * time.Second

func (s *Session) leave(from time.Time) {
	if s.leftFrom.IsZero() || from.Before(s.leftFrom) {
		s.leftFrom = from
	}
}

// drain has every session of a process end.
func (p *Process) drain(at time.Time, timeout time.Duration) {
	for _, s := range p.Sessions {
		s.leave(at.Add(timeout + leftBehindAfter))
	}
}

// endSession decides which attempts of a session may be counted as crashes.
func (m *Model) endSession(p *Process, s *Session) {
	if p.Exited.IsZero() {
		m.lose(p, func(a *Attempt) bool { return a.Session == s })
	}
	s.Gone = m.now
}

// endProcess decides which attempts of a process may be counted as crashes.
func (m *Model) endProcess(p *Process, e Event) {
	if e.Token != "" {
		p.killer = m.attempt(e)
		m.spare(p)
	}
	m.lose(p, func(*Attempt) bool { return true })
	p.Exited = e.At
}

// spare notes which attempts must not be counted as crashes although they may be open: another attempt kills their
// process. A first delivery may kill it while the isolation lock is held. Then an attempt is not spared if the store
// owed it a reply for as long as a step is repeated. It is
// not spared either if its session had ended: then the step is repeated for a shorter time.
func (m *Model) spare(p *Process) {
	for _, a := range p.attempts {
		if a.ID == p.killer.ID || a.Outcome == Crashed || m.failing(a) {
			continue
		}
		since := a.unanswered()
		inTime := m.now.Before(since.Add(answerWithin)) && a.Session.Gone.IsZero()
		a.innocent = !p.killer.first || since.IsZero() || inTime
	}
}

// lose marks those attempts that may be counted as crashes among those that lose their session or process now.
func (m *Model) lose(p *Process, lost func(*Attempt) bool) {
	for _, a := range p.attempts {
		if lost(a) && !a.innocent && (m.failing(a) || !a.unanswered().IsZero() || m.onlyHandler(a)) {
			a.countable = true
		}
	}
}

// onlyHandler reports whether no other handler runs in a's process.
func (m *Model) onlyHandler(a *Attempt) bool {
	return !slices.ContainsFunc(a.Process.Runs, func(x *Attempt) bool { return x != a && x.Ended.IsZero() })
}

// SessionLost reports whether the broker took back the delivery of the attempt.
func (a *Attempt) SessionLost() bool { return !a.Session.Gone.IsZero() }

// lossesBetween is how often the store lost everything between two times, as far as clocks tell.
func (m *Model) lossesBetween(from, to time.Time) int {
	n := 0
	for _, at := range m.losses {
		if Within(at, from, to) {
			n++
		}
	}
	return n
}

// Slack is the largest error of the time between the events of two processes.
const Slack = time.Second

// Within reports whether a time is between two others, as far as clocks tell.
func Within(at, from, to time.Time) bool {
	return at.After(from.Add(-Slack)) && at.Before(to.Add(Slack))
}

// leftBehind reports whether a handler that runs was abandoned by then.
func (a *Attempt) leftBehind(at time.Time) bool {
	deadline := a.until.Add(leftBehindAfter)
	return !at.Before(deadline) || !a.Session.leftFrom.IsZero() && !at.Before(a.Session.leftFrom)
}

const (
	pauseWithin = 2 * time.Second // a pause is in force on every process that hears from the store
	beginWithin = time.Second     // so long the begin of a handler that was called may take
)

func (m *Model) hearPause(p *Process, e Event) {
	if !e.Paused {
		p.pauseHeard = time.Time{}
	} else if p.pauseHeard.IsZero() {
		p.pauseHeard = e.At
		p.drain(e.At, m.plan.DrainTimeout)
	}
}

// checkPaused checks that no attempt begins after its process has heard of a pause, or must have.
func (m *Model) checkPaused(a *Attempt) {
	if heard := a.Process.pauseHeard; !heard.IsZero() && a.Began.After(heard.Add(beginWithin)) {
		m.Violated("pause", "%s began %v after its process heard of the pause", a.ID, a.Began.Sub(heard))
	}
	if !m.paused.IsZero() && a.Began.After(m.paused.Add(pauseWithin+beginWithin)) && a.Process.unsure.Before(m.paused) {
		m.Violated("pause", "%s began %v after the pause", a.ID, a.Began.Sub(m.paused))
	}
}
