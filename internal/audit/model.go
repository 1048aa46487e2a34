package audit

import (
	"slices"
	"time"
)

// model is a history by its subjects: messages, copies, attempts and processes. It grows with each event, so that a
// rule may ask for the state at an event, or for the end once all are in.
type model struct {
	report    *Report
	plan      Plan
	now       time.Time // of the newest event
	messages  map[string]*message
	copies    map[string]*published // by name
	attempts  map[string]*attempt
	processes map[int]*process
	losses    []time.Time // of the store
	paused    time.Time   // since when the queue is; zero: it is not
}

// add takes an event in, and checks the rules that hold for it at that moment.
func (m *model) add(e Event) {
	m.now = e.At
	p, msg := m.process(e.Process), m.message(e.ID)
	switch e.Kind {
	case Setup:
		m.plan = *e.Plan
	case Forgot:
		m.losses = append(m.losses, e.At)
		m.paused = time.Time{}
	case PauseBegan:
		m.paused = e.At
	case PauseEnded:
		m.paused = time.Time{}
	case Stalled:
		for _, p := range m.processes {
			p.unsure = e.At.Add(time.Minute)
		}
	case Undrained:
		m.violated("drained", "not drained: %s", e.Err)

	case Published:
		msg.do = e.Do
		msg.copies++
		msg.confirmed = msg.confirmed || e.Outcome == Confirmed
		m.copies[e.Copy] = &published{name: e.Copy, lane: e.Lane, seq: e.Seq, of: msg}
	case Copied:
		msg.moves++
		m.copies[e.Copy] = &published{name: e.Copy, of: msg, copyNumber: e.Seq}
	case Skipped:
		msg.skipped = true
	case Forgetful:
		msg.forgets++
	case Delivered:
		if settled := m.copies[e.Copy].settled; settled != "" {
			m.violated("settled", "%s was delivered after its %s", e.Copy, settled)
		}
	case Settled:
		m.checkSettlement(msg, e)

	case Began:
		m.begin(m.attempt(e), e)
	case Ended:
		m.end(m.attempt(e), e)
	case Asked:
		m.attempt(e).asked = true
	case Stepped:
		a := m.attempt(e)
		a.steps = append(a.steps, e)
	case Written:
		m.checkWritten(m.attempt(e), e)

	case Opened:
		p.session(e.Session)
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
	}
}

// attempt returns the attempt of an event. If the event is its first, it fills in the facts that are known already.
func (m *model) attempt(e Event) *attempt {
	if a := m.attempts[e.Token]; a != nil {
		return a
	}
	p := m.process(e.Process)
	a := &attempt{token: e.Token, id: e.ID, copy: e.ID, process: p, session: p.session(e.Session), heard: e.At}
	a.innocent = m.died(a) && p.killer != nil && p.killer.id != a.id
	// its START was on its way, under the lock if it was isolated
	a.countable = m.died(a) && !a.innocent || !a.session.gone.IsZero()
	m.attempts[e.Token] = a
	p.attempts = append(p.attempts, a)
	msg := m.message(e.ID)
	msg.attempts = append(msg.attempts, a)
	return a
}

func (m *model) begin(a *attempt, e Event) {
	msg := m.message(a.id)
	again := slices.ContainsFunc(msg.runs, func(x *attempt) bool {
		return x.tag == e.Tag && x.session == a.session && (a.id != "" || x.outcome != NotCounted)
	})
	a.began, a.until, a.tag, a.first = e.At, e.Until, e.Tag, !e.Redelivered && !again
	if a.until.IsZero() {
		a.until = e.At.Add(m.plan.HandlerTimeout)
	}
	if e.Copy != "" {
		a.copy = e.Copy
	}
	if e.Session != a.session.number {
		a.session = a.process.session(e.Session)
	}
	if c := m.copies[a.copy]; c != nil && c.copyNumber > 0 {
		a.first = false
	}
	msg.runs, a.process.runs = append(msg.runs, a), append(a.process.runs, a)
	m.checkPaused(a)
	m.checkFinished(msg, a)
}

func (m *model) end(a *attempt, e Event) {
	a.ended, a.outcome, a.atMost = e.At, e.Outcome, e.AtMost
	a.countable = a.countable || e.Outcome == Crashed && a.isolated() && m.onlyHandler(a)
	msg := m.message(a.id)
	msg.rejected = msg.rejected || e.Outcome == Rejected
	if c := m.copies[a.copy]; c != nil && e.Outcome == OK {
		c.finish(e.At)
	}
}

func (m *model) message(id string) *message { return in(m.messages, id, &message{id: id}) }

func (m *model) process(n int) *process {
	return in(m.processes, n, &process{number: n, sessions: map[int]*session{}})
}

// in returns the subject that known has for key. If there is none, it adds fresh and returns that.
func in[K comparable, V any](known map[K]*V, key K, fresh *V) *V {
	if known[key] == nil {
		known[key] = fresh
	}
	return known[key]
}
