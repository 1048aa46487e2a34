package audit

import (
	"cmp"
	"slices"
	"time"
)

// Model is a history by its subjects: messages, copies, attempts and processes. It grows with each event, so that a
// rule may ask for the state at an event, or for the end once all are in.
type Model struct {
	*Report
	Messages  map[string]*Message // by id; the events without one are those of the empty id
	attempts  map[string]*Attempt // by token
	Processes map[int]*Process    // by number
	plan      Plan
	now       time.Time             // of the newest event
	copies    map[string]*published // by name
	losses    []time.Time           // of the store
	paused    time.Time             // since when the queue is; zero: it is not
}

// NewModel returns an empty history, to be judged by some rules.
func NewModel(rules Rules) *Model {
	m := &Model{
		Report:   &Report{Violations: map[string]Finding{}, rules: rules},
		Messages: map[string]*Message{}, attempts: map[string]*Attempt{}, Processes: map[int]*Process{},
		copies: map[string]*published{},
	}
	for _, rule := range rules {
		m.Violations[rule.Name] = Finding{}
	}
	return m
}

// Add takes an event in, and checks the rules that hold for it at that moment.
func (m *Model) Add(e Event) {
	m.now = e.At
	p, msg := m.Process(e.Process), m.Message(e.ID)
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
		for _, p := range m.Processes {
			p.unsure = e.At.Add(time.Minute)
		}
	case Undrained:
		m.Violated("drained", "not drained: %s", e.Err)

	case Published:
		msg.Do = e.Do
		if e.Outcome != Unsent {
			msg.Copies++
		}
		msg.Confirmed = msg.Confirmed || e.Outcome == Confirmed
		name := cmp.Or(e.Copy, e.ID)
		in(m.copies, name, &published{name: name, named: e.Copy != "", lane: e.Lane, seq: e.Seq, of: msg})
	case Copied:
		msg.moves++
		m.copies[e.Copy] = &published{name: e.Copy, named: true, of: msg, copyNumber: e.Seq}
	case Decided:
		msg.Decided = append(msg.Decided, e.At)
		m.finishCopy(e.ID, e.At)
	case Dead:
		msg.Dead = append(msg.Dead, e)
		if len(msg.Runs) > 0 { // a process that is killed has no time to write down that it dead-letters a message
			last := msg.Runs[len(msg.Runs)-1]
			m.finishCopy(e.ID, cmp.Or(last.Ended, last.Began))
		}
	case Counted:
		msg.Counted = true
	case Uncounted:
		m.attempt(e).Uncounted = true
	case Skipped:
		msg.skipped = true
	case Forgetful:
		msg.forgets++
	case Delivered:
		if settled := m.copies[e.Copy].settled; settled != "" {
			m.Violated("settled", "%s was delivered after its %s", e.Copy, settled)
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
		p.Session(e.Session)
	case Told:
		p.Session(e.Session).leave(e.At.Add(leftBehindAfter))
	case Cut:
		m.endSession(p, p.Session(e.Session))
	case Closed:
		p.Session(e.Session).leave(e.At)
		m.endSession(p, p.Session(e.Session))
	case Stopping:
		p.drain(e.At, m.plan.DrainTimeout)
	case Stopped:
		p.Clean = e.Err == ""
	case Exited:
		m.endProcess(p, e)
	case Started, Unheard:
		p.unsure = e.At
	case Heard:
		m.hearPause(p, e)
	}
}

// attempt returns the attempt of an event. If the event is its first, it fills in the facts that are known already.
func (m *Model) attempt(e Event) *Attempt {
	if a := m.attempts[e.Token]; a != nil {
		return a
	}
	p := m.Process(e.Process)
	a := &Attempt{token: e.Token, ID: e.ID, copy: e.ID, Process: p, Session: p.Session(e.Session), heard: e.At}
	a.innocent = a.Process.Died() && p.killer != nil && p.killer.ID != a.ID
	// its START was on its way, under the lock if it was isolated
	a.countable = a.Process.Died() && !a.innocent || !a.Session.Gone.IsZero()
	m.attempts[e.Token] = a
	p.attempts = append(p.attempts, a)
	msg := m.Message(e.ID)
	msg.Attempts = append(msg.Attempts, a)
	return a
}

func (m *Model) begin(a *Attempt, e Event) {
	a.Remote = e.Remote
	msg := m.Message(a.ID)
	again := slices.ContainsFunc(msg.Runs, func(x *Attempt) bool {
		return x.tag == e.Tag && x.Session == a.Session && (a.ID != "" || x.Outcome != NotCounted)
	})
	a.Began, a.until, a.tag, a.first = e.At, e.Until, e.Tag, !e.Redelivered && !again
	if a.until.IsZero() {
		a.until = e.At.Add(m.plan.HandlerTimeout)
	}
	if e.Copy != "" {
		a.copy = e.Copy
	}
	if e.Session != a.Session.number {
		a.Session = a.Process.Session(e.Session)
	}
	if c := m.copies[a.copy]; c != nil && c.copyNumber > 0 {
		a.first = false
	}
	msg.Runs, a.Process.Runs = append(msg.Runs, a), append(a.Process.Runs, a)
	m.checkPaused(a)
	m.checkFinished(msg, a)
}

func (m *Model) end(a *Attempt, e Event) {
	a.Ended, a.Outcome, a.atMost = e.At, e.Outcome, e.AtMost
	a.countable = a.countable || e.Outcome == Crashed && a.isolated() && m.onlyHandler(a)
	msg := m.Message(a.ID)
	msg.rejected = msg.rejected || e.Outcome == Rejected
	if e.Outcome == OK {
		m.finishCopy(a.copy, e.At)
	}
}

// finishCopy notes when a copy, if it is known, was first done.
func (m *Model) finishCopy(name string, at time.Time) {
	if c := m.copies[name]; c != nil && c.done.IsZero() {
		c.done = at
	}
}

// Message returns the message of an id.
func (m *Model) Message(id string) *Message { return in(m.Messages, id, &Message{ID: id}) }

// Process returns the process of a number.
func (m *Model) Process(n int) *Process {
	return in(m.Processes, n, &Process{number: n, Sessions: map[int]*Session{}})
}

// in returns the subject that known has for key. If there is none, it adds fresh and returns that.
func in[K comparable, V any](known map[K]*V, key K, fresh *V) *V {
	if known[key] == nil {
		known[key] = fresh
	}
	return known[key]
}
