package audit

import (
	"slices"
	"time"
)

const (
	// leftBehindAfter is how long a handler has to return once its context is cancelled. Then it is abandoned.
	leftBehindAfter = 2 * time.Second
	// clocks is how much earlier a process may read its clock than the events of it are recorded.
	clocks = 100 * time.Millisecond
	// unaware is for how long a process may not know that its session was lost.
	unaware = 100 * time.Millisecond
	// aftermath is for how long after a fault the nodes of a cluster may still come to terms with it.
	aftermath = 10 * time.Second
	// underway is for how long a dead letter may be on its way.
	underway = time.Second
	// election is for how long after its start a quorum queue may have no leader.
	election = 2 * time.Second
)

// span is a time in which the broker may undo what it had taken in shortly before. It is the moment of a kill, and in a
// cluster every fault of a node, for as long as it lasts: what the node's clients hold is given to others, their
// sessions stay as they are, and what they settle then is ignored.
type span struct{ from, to time.Time }

func (m *model) addProcess(e Event) {
	p := m.process(e.Process)
	switch e.Kind {
	case Opened:
		if len(m.deaf) == 0 { // the broker has just started
			m.deaf = append(m.deaf, span{e.At, e.At.Add(election)})
		}
		p.session(e.Session)
		p.last = max(p.last, e.Session)
	case Lost:
		p.session(e.Session).lose(e.At.Add(-unaware), e.At.Add(leftBehindAfter-clocks))
	case Told:
		p.session(e.Session).leave(e.At.Add(leftBehindAfter))
	case Cut:
		m.endSession(p, p.session(e.Session))
	case Closed:
		p.session(e.Session).leave(e.At)
		m.endSession(p, p.session(e.Session))
	case Stopping:
		p.drain(e.At, m.plan.DrainTimeout)
	case Stopped:
		p.clean = e.Err == ""
	case Exited:
		m.endProcess(p, e)
	case Started, Unheard:
		p.unsure = e.At
	case Heard:
		m.hearPause(p, e)
	default:
	}
}

func (s *session) lose(gone, leftFrom time.Time) {
	s.gone = gone
	s.leave(leftFrom)
}

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
	if p.exited.IsZero() && m.plan.Complete {
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
	if m.plan.Complete {
		m.lose(p, func(*attempt) bool { return true })
	}
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

// lose marks what may be counted as a crash among attempts that lose their session or process now.
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

// sessionLost reports whether the broker may have taken back what the attempt held while its process lived.
func (m *model) sessionLost(a *attempt) bool {
	if !a.session.gone.IsZero() {
		return true
	}
	silently := !m.plan.Complete && !a.process.clean && a.session.number < a.process.last
	return silently || m.plan.Cluster && m.upset(a.heard, a.last.Add(time.Second))
}

// upset reports whether the broker may have undone between two times what it had taken in.
func (m *model) upset(from, to time.Time) bool {
	return slices.ContainsFunc(m.upsets, func(s span) bool {
		return !s.to.Before(from.Add(-time.Second)) && !s.from.After(to)
	})
}

func (m *model) lossesBetween(from, to time.Time) int {
	n := 0
	for _, at := range m.losses {
		if at.After(from.Add(-time.Second)) && at.Before(to.Add(time.Second)) {
			n++
		}
	}
	return n
}

// clocks is how far the clocks and timers of real processes may differ from the events; a complete history has one
// clock.
func (m *model) clocks() time.Duration {
	if m.plan.Complete {
		return 0
	}
	return clocks
}

// leftBehind reports whether a handler that runs was abandoned by then.
func (m *model) leftBehind(a *attempt, at time.Time) bool {
	deadline := a.until.Add(leftBehindAfter - m.clocks())
	return !at.Before(deadline) || !a.session.leftFrom.IsZero() && !at.Before(a.session.leftFrom)
}
