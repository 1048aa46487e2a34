package audit

import (
	"slices"
	"strings"
	"time"
)

// model is a history put together by what it is about.
type model struct {
	plan      Plan
	messages  map[string]*message
	attempts  map[string]*attempt
	processes map[int]*process
	owners    map[string]int // process of the tokens that begin so
	kept      []Event
	quiet     []Event // Quiet, Drained, Undrained
	faults    map[string]int
	begun     map[string]time.Time // when each kind of fault last was
	upsets    []span               // of the broker
	deaf      []span               // in which a dead-letter queue may not hear
	losses    []time.Time          // of the store
	last      time.Time
}

type message struct {
	id, do    string
	seq       int
	copies    int // that may have reached the queue
	confirmed bool
	runs      []*attempt // in the order in which they began
	attempts  []*attempt // those that did not run too
	dead      []Event
	record    *Event
	kinds     map[string]byte // of the tokens in the record
	unique    bool            // no token is in it twice
}

// attempt is what is known by one token.
type attempt struct {
	token            string
	id               string
	process, session int
	began, ended     time.Time // of the run; zero: not written down
	first, last      time.Time // that it was heard of
	outcome          string
	redelivered      bool
	steps            []Event
	decided          []Event
}

type process struct {
	last   int               // number of its last session
	lost   map[int]time.Time // by session
	clean  bool              // stopped, and was sure of its acks
	exited time.Time
	runs   []*attempt
}

func build(history []Event) *model {
	m := &model{
		messages: map[string]*message{}, attempts: map[string]*attempt{}, processes: map[int]*process{},
		owners: map[string]int{}, faults: map[string]int{}, begun: map[string]time.Time{},
	}
	for _, e := range history {
		m.last = e.At
		switch e.Kind {
		case Began, Ended, Stepped, Decided:
			m.addAttempt(e)
		case Opened, Lost, Stopped, Exited:
			m.addProcess(e)
		case Published, Dead, Kept:
			m.addMessage(e)
		default:
			m.addRun(e)
		}
	}
	return m
}

func (m *model) addRun(e Event) {
	switch e.Kind {
	case Setup:
		m.plan = *e.Plan
	case Fault:
		m.faults[e.Fault]++
		m.begun[e.Fault] = e.At
		if e.Fault == BrokerKill {
			m.upsets = append(m.upsets, span{e.At, e.At})
		}
	case FaultOver:
		if e.Fault == BrokerKill || e.Fault == BrokerRestart {
			m.deaf = append(m.deaf, span{m.begun[e.Fault].Add(-underway), e.At.Add(election)})
		}
		if m.plan.Cluster {
			m.upsets = append(m.upsets, span{m.begun[e.Fault], e.At.Add(aftermath)})
		}
	case Forgot:
		m.losses = append(m.losses, e.At)
	case Quiet, Drained, Undrained:
		m.quiet = append(m.quiet, e)
	default:
	}
}

// BrokerKill is the Fault that may take back an ack that had reached the broker. After either the broker starts anew.
const (
	BrokerKill    = "broker-kill"
	BrokerRestart = "broker-restart"
)

const (
	underway = time.Second     // for how long a dead letter may be on its way
	election = 2 * time.Second // for how long after its start a quorum queue may have no leader
)

func (m *model) addAttempt(e Event) {
	a := m.attempts[e.Token]
	if a == nil {
		a = &attempt{token: e.Token, id: e.ID, process: e.Process, session: e.Session, first: e.At}
		m.attempts[e.Token] = a
		msg := m.message(e.ID)
		msg.attempts = append(msg.attempts, a)
		m.owners[processPart(e.Token)] = e.Process
	}
	a.last = e.At
	switch e.Kind {
	case Began:
		a.began, a.redelivered, a.session = e.At, e.Redelivered, e.Session
		msg, p := m.message(e.ID), m.process(e.Process)
		msg.runs, p.runs = append(msg.runs, a), append(p.runs, a)
	case Ended:
		a.ended, a.outcome = e.At, e.Outcome
	case Stepped:
		a.steps = append(a.steps, e)
	case Decided:
		a.decided = append(a.decided, e)
	default:
	}
}

func (m *model) addProcess(e Event) {
	p := m.process(e.Process)
	switch e.Kind {
	case Opened:
		if len(m.deaf) == 0 { // the broker has just started
			m.deaf = append(m.deaf, span{e.At, e.At.Add(election)})
		}
		p.last = max(p.last, e.Session)
	case Lost:
		p.lost[e.Session] = e.At
	case Stopped:
		p.clean = e.Err == ""
	case Exited:
		p.exited = e.At
	default:
	}
}

func (m *model) addMessage(e Event) {
	switch {
	case e.Kind == Kept && e.ID == "":
		m.kept = append(m.kept, e)
		return
	case e.Kind == Kept:
		m.kept = append(m.kept, e)
		msg := m.message(e.ID)
		msg.record = &e
		msg.kinds, msg.unique = kinds(e.Tokens)
		return
	case e.Kind == Dead:
		msg := m.message(e.ID)
		msg.dead = append(msg.dead, e)
		return
	}
	msg := m.message(e.ID)
	msg.do, msg.seq = e.Do, e.Seq
	if e.Outcome != Unsent {
		msg.copies++
	}
	msg.confirmed = msg.confirmed || e.Outcome == Confirmed
}

// kinds reads the tokens of a record: ";token=kind" each.
func kinds(tokens string) (of map[string]byte, unique bool) {
	of, unique = map[string]byte{}, true
	for entry := range strings.SplitSeq(tokens, ";") {
		token, kind, ok := strings.Cut(entry, "=")
		if !ok || len(kind) != 1 {
			continue
		}
		if _, twice := of[token]; twice {
			unique = false
		}
		of[token] = kind[0]
	}
	return of, unique
}

func (m *model) message(id string) *message {
	msg := m.messages[id]
	if msg == nil {
		msg = &message{id: id}
		m.messages[id] = msg
	}
	return msg
}

func (m *model) process(n int) *process {
	p := m.processes[n]
	if p == nil {
		p = &process{lost: map[int]time.Time{}}
		m.processes[n] = p
	}
	return p
}

// processPart is what the tokens of one process have in common.
func processPart(token string) string {
	if i := strings.LastIndexByte(token, '-'); i >= 0 {
		return token[:i]
	}
	return token
}

func (m *model) limit() int { return m.plan.MaxRetries + 1 }

// sessionLost reports whether the broker may have taken back what the attempt held while its process lived.
func (m *model) sessionLost(a *attempt) bool {
	p := m.process(a.process)
	_, lost := p.lost[a.session]
	return lost || !p.clean && a.session < p.last || m.plan.Cluster && m.upset(a.first, a.last.Add(time.Second))
}

// died reports whether the attempt's process was gone without having made sure of its acks.
func (m *model) died(a *attempt) bool {
	p := m.process(a.process)
	return !p.clean && !p.exited.IsZero()
}

// span is a time in which the broker may undo what it had taken in shortly before. It is the moment of a kill, and in a
// cluster every fault of a node, for as long as it lasts: what the node's clients hold is given to others, their sessions
// stay as they are, and what they settle then is ignored.
type span struct{ from, to time.Time }

// aftermath is for how long after a fault the nodes of a cluster may still come to terms with it.
const aftermath = 10 * time.Second

// upset reports whether the broker may have undone between two times what it had taken in.
func (m *model) upset(from, to time.Time) bool {
	return slices.ContainsFunc(m.upsets, func(s span) bool { return !s.to.Before(from.Add(-time.Second)) && !s.from.After(to) })
}

// again reports whether the attempt ran in place, after another one at the same delivery.
func (m *model) again(a *attempt) bool {
	return slices.ContainsFunc(m.message(a.id).runs, func(b *attempt) bool {
		return b.process == a.process && b.session == a.session && b.began.Before(a.began)
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

func (a *attempt) left() bool {
	return slices.ContainsFunc(a.decided, func(e Event) bool { return e.Decision == "leave" })
}

func (a *attempt) decidedAs(decision string) (Event, bool) {
	i := slices.IndexFunc(a.decided, func(e Event) bool { return e.Decision == decision })
	if i < 0 {
		return Event{}, false
	}
	return a.decided[i], true
}

// answered returns the first answer of the store to a step.
func (a *attempt) answered(step, verdict string) (Event, bool) {
	i := slices.IndexFunc(a.steps, func(e Event) bool {
		return e.Step == step && e.Verdict != "" && (verdict == "" || e.Verdict == verdict)
	})
	if i < 0 {
		return Event{}, false
	}
	return a.steps[i], true
}

func (a *attempt) exclusive() bool {
	return slices.ContainsFunc(a.steps, func(e Event) bool { return e.Step == "start" && e.Exclusive && e.Verdict == "run" })
}

// beside reports whether the attempt ran isolated, but for abandoned handlers.
func (a *attempt) beside() bool {
	return slices.ContainsFunc(a.steps, func(e Event) bool { return e.Step == "start" && e.Beside && e.Verdict == "run" })
}

// counted reports whether the store counted the attempt: as a failure by its own word, or as a crash by another's.
func (m *model) counted(a *attempt) bool {
	if _, ok := a.answered("fail", ""); ok {
		return true
	}
	kind := m.message(a.id).kinds[a.token]
	return kind == 'f' || kind == 'c'
}
