package consumer

import (
	"fmt"
	"time"
)

// simChecker reads a history and decides whether the promises were kept. It knows nothing of the code under test but what
// was configured.
type simChecker struct {
	limit     int    // failed attempts at which a message is dead-lettered
	isolation string // of suspects: "on", "strict", "off"
	ordered   bool   // there is one consumer at a time, and it is ordered or has a prefetch of one

	messages map[string]*checkedMessage // by id
	copies   map[string]*checkedCopy    // by name
	order    []string                   // of copies, as published
	attempts map[string]*checkedAttempt // by token
	sessions map[int]*checkedSession
	dead     map[int]bool            // processes
	killers  map[int]*checkedAttempt // of processes
	found    []simViolation
	at       time.Duration

	paused   time.Duration         // when the queue was; 0: it is not
	pausedBy map[int]time.Duration // processes that have heard of the pause, and when
	unsure   map[int]time.Duration // processes, and when one last did not hear from the store, or began
}

// simViolation is a promise that was broken; the rule is named as the guarantees name it.
type simViolation struct{ rule, text string }

type checkedMessage struct {
	id       string
	copies   int
	runs     int
	rejected bool
	losses   int // of the store
	forgets  int // by the broker, that the message had been delivered
	renewals int // by the step of a first delivery, on a message that had been dead-lettered or handled
	skipped  bool
	mistaken bool // the crash that reached the limit was counted by a START that arrived late, and its process lives
}

type checkedCopy struct {
	id   string
	lane string
	end  string // how it was settled; empty if it was not
	done bool   // a handler succeeded, or it was dead-lettered
}

type checkedAttempt struct {
	token, id, copy string
	proc, session   int
	tag             uint64
	state           string        // "" before the handler ran, "running", then the outcome
	until           time.Duration // its deadline
	overdue         bool          // it was passed when the handler returned
	first           bool          // of a delivery that is not redelivered
	granted         bool          // START answered RUN, and the answer arrived
	exclusive       bool          // START exclusive let it run
	beside          bool          // START beside let it run
	waited          bool          // START answered WAIT, and the answer arrived
	exhausted       bool          // a step answered EXHAUSTED, and the answer arrived
	steps           int
	crashed         bool          // counted as a crash at some time
	counted         byte          // as what: f, c, or 0
	fails           int           // FAILs that took place
	returned        bool          // END took place, not after a success
	lost            bool          // its session ended while its process lived
	died            bool          // its process died
	unheard         time.Duration // from when on a step of it is not answered, so that it may be open without running; 0: none is
	countable       bool          // as a crash: it was open, and ran isolated or had failed, when its process or session was lost
	innocent        bool          // another message killed the process while this one may have been open
}

type checkedSession struct {
	proc     int
	gone     bool          // at the broker
	leftFrom time.Duration // from when on a handler that still runs was left behind
}

const (
	simLeftBehind = 2 * time.Second // a handler has so long to return once its context is cancelled
	simNever      = time.Duration(1<<63 - 1)
	simLocked     = 2 * time.Second // for so long a step is repeated under the isolation lock
)

func newSimChecker(plan simPlan) *simChecker {
	return &simChecker{
		limit: max(plan.maxRetries, 0) + 1, isolation: map[Isolation]string{IsolationSuspects: "on", IsolationStrict: "strict", IsolationOff: "off"}[plan.isolation],
		ordered:  plan.ordered || plan.processes*plan.consumers == 1 && plan.prefetch == 1,
		messages: map[string]*checkedMessage{}, copies: map[string]*checkedCopy{},
		attempts: map[string]*checkedAttempt{}, sessions: map[int]*checkedSession{}, dead: map[int]bool{}, killers: map[int]*checkedAttempt{},
		pausedBy: map[int]time.Duration{}, unsure: map[int]time.Duration{},
	}
}

func (c *simChecker) report(rule, format string, args ...any) {
	c.found = append(c.found, simViolation{rule, fmt.Sprintf("at %.3fs: %s", c.at.Seconds(), fmt.Sprintf(format, args...))})
}

func (c *simChecker) check(history []simEvent) []simViolation {
	for _, e := range history {
		c.at = e.at
		c.see(e)
	}
	for _, name := range c.order {
		if c.copies[name].end == "" {
			c.report("blocked", "%s was never settled", name)
		}
	}
	for _, name := range c.order {
		if m := c.messages[c.copies[name].id]; m.copies > 0 && m.runs > c.bound(m) {
			c.report("I3", "%q ran %d times, %d at most were allowed", m.id, m.runs, c.bound(m))
			m.copies = 0 // reported
		}
	}
	return c.found
}

// bound is the number of runs that a message may have. Copies share a limit, but the first delivery of one may begin
// another, and one may be running when the other reaches the limit. A loss of the store takes back the counts, the one
// shared run, and another if a START that was already answered SUSPECT then replaces its open attempt.
func (c *simChecker) bound(m *checkedMessage) int {
	if m.id == "" {
		most := m.copies + m.forgets
		for _, a := range c.attempts {
			if a.id == "" && a.state == "uncounted" {
				most++
			}
		}
		return most
	}
	each := c.limit + 2
	if c.isolation == "strict" {
		each = c.limit
	}
	most := (m.copies+m.renewals)*(each+m.copies-1) + m.forgets + (c.limit+2)*m.losses
	for _, a := range c.attempts {
		if a.id == m.id && a.state != "" {
			most += c.free(a)
		}
	}
	return most
}

// free is the number of attempts that an attempt allows beyond the limit: itself, if it went back and was not counted.
func (c *simChecker) free(a *checkedAttempt) int {
	switch {
	case a.beside && a.died: // its FAIL may arrive after the next run began
		return 1
	case a.counted != 0:
		return 0
	case a.state == "ok" && (a.lost || a.died):
		return 2 // its ack was lost, and the suspicion forgotten
	case a.lost, a.returned, a.died && c.isolation == "off", a.state == "uncounted", a.state == "crash" && (a.beside || c.isolation == "off"):
		return 1
	}
	return 0
}

func (c *simChecker) see(e simEvent) {
	switch e.kind {
	case "publish":
		c.copies[e.copy] = &checkedCopy{id: e.id, lane: e.lane}
		c.order = append(c.order, e.copy)
		if c.messages[e.id] == nil {
			c.messages[e.id] = &checkedMessage{id: e.id}
		}
		c.messages[e.id].copies++
	case "open":
		c.sessions[e.session] = &checkedSession{proc: e.proc, leftFrom: simNever}
	case "deliver":
		c.delivered(e)
	case "run":
		c.began(e)
	case "ran":
		c.ended(e)
	case "settle":
		c.settled(e)
	case "store":
		c.stepped(e)
	case "answer":
		a := c.attempt(e)
		a.granted = a.granted || e.verdict == "RUN"
		a.waited = a.waited || e.verdict == "WAIT"
		a.unheard = 0
		a.exhausted = a.exhausted || e.verdict == "EXHAUSTED"
	case "lost":
		a := c.attempt(e)
		if a.unheard == 0 {
			a.unheard = e.at
		}
	case "loss":
		c.paused = 0
		for _, m := range c.messages {
			m.losses++
		}
	case "forget":
		c.messages[e.id].forgets++
	case "pause", "resume", "skip", "heard", "unheard", "slow", "start":
		c.operated(e)
	case "stuck":
		c.report("blocked", "process %d did not stop", e.proc)
	default:
		c.fell(e)
	}
}

func (c *simChecker) attempt(e simEvent) *checkedAttempt {
	a := c.attempts[e.token]
	if a == nil {
		a = &checkedAttempt{token: e.token, id: e.id, proc: e.proc, session: e.session}
		a.died, a.lost = c.dead[e.proc], c.sessions[e.session].gone
		killer := c.killers[e.proc]
		a.innocent = a.died && killer != nil && killer.id != a.id
		a.countable = a.died && !a.innocent || a.lost // its START was on its way, under the lock if it was exclusive
		c.attempts[e.token] = a
	}
	return a
}

func (c *simChecker) delivered(e simEvent) {
	if end := c.copies[e.copy].end; end != "" {
		c.report("I12", "%s was delivered after its %s", e.copy, end)
	}
}

func (c *simChecker) began(e simEvent) {
	again := false
	for _, other := range c.attempts {
		again = again || other.session == e.session && other.tag == e.tag && other.state != "" && (e.id != "" || other.state != "uncounted")
	}
	c.begunWhilePaused(e)
	a := c.attempt(e)
	a.copy, a.tag, a.state, a.until, a.first = e.copy, e.tag, "running", e.until, !e.redelivered && !again
	c.messages[e.id].runs++
	if !a.first && !a.granted {
		c.report("I8", "%s ran again without leave of the store", e.copy)
	}
	for _, other := range c.attempts {
		if other == a || other.proc != a.proc || other.state != "running" || other.died {
			continue
		}
		if a.exclusive || (a.beside || other.beside || other.exclusive) && !c.leftBehind(other) {
			c.report("isolated", "%s ran beside %s, and one of them was to be isolated", e.copy, other.copy)
		}
	}
	for _, name := range c.order {
		if name == e.copy || !c.ordered || c.sessions[e.session].gone {
			break
		}
		if before := c.copies[name]; !before.done && before.lane == c.copies[e.copy].lane {
			c.report("I6", "%s ran before %s was done with", e.copy, name)
		}
	}
}

func (c *simChecker) ended(e simEvent) {
	a := c.attempt(e)
	a.state, a.overdue = e.what, e.at >= a.until
	a.countable = a.countable || e.what == "crash" && a.exclusive && c.onlyHandler(a)
	if e.what == "ok" {
		c.copies[a.copy].done = true
	}
	if e.what == "reject" {
		c.messages[e.id].rejected = true
	}
}
