package audit

import (
	"slices"
	"strings"
	"time"
)

// Message has the events of one id.
type Message struct {
	ID, Do    string
	Copies    int // that may have reached the queue
	Confirmed bool
	Runs      []*Attempt // in the order in which they began
	Attempts  []*Attempt // those that did not run too
	Dead      []Event
	Decided   []time.Time     // when a consumer was about to dead-letter it
	Counted   bool            // an attempt failed, or crashed
	record    *Record         // the newest that is known
	kinds     map[string]byte // of the tokens in it
	rejected  bool

	skipped   bool
	exhausted bool      // its record was a tombstone at some time
	mistaken  bool      // the crash that reached the limit was counted by a START that arrived late, and its process lives
	moves     int       // copies that processes made
	finished  time.Time // when a success of such a copy was recorded
	forgets   int       // by the broker, that the message had been delivered
	renewals  int       // by the step of a first delivery, on a message that had been dead-lettered or handled
}

// Handled reports whether a run of its handler succeeded.
func (msg *Message) Handled() bool {
	return slices.ContainsFunc(msg.Runs, func(a *Attempt) bool { return a.Outcome == OK })
}

// published is one publication of a message.
type published struct {
	name, lane string
	named      bool // else the message's id stands for the name
	seq        int
	of         *Message
	done       time.Time // first handled, dead-lettered or acked; zero: not
	settled    string    // by the broker
	copyNumber int       // of a copy that a process made
}

// Attempt has the events of one token.
type Attempt struct {
	token     string
	ID, copy  string
	Process   *Process
	Session   *Session
	tag       uint64
	Began     time.Time // the handler; zero: not recorded
	until     time.Time // its deadline
	Ended     time.Time // zero: not recorded
	heard     time.Time // its first event
	Outcome   string
	Remote    bool    // the handler is a request to an endpoint
	Uncounted bool    // it failed, and its process said that this was not counted
	atMost    int     // failed attempts that its handler allowed, if it said so in time
	first     bool    // neither redelivered nor in place
	steps     []Event // as its process saw them
	written   []Event // as the store took them

	asked     bool // its BEGUN was sent, so its handler is about to be called
	kind      byte // how it was counted: f, c; 0: it was not, or that was reversed
	crashed   bool // it was counted as a crash at some time
	countable bool // as a crash: it was open, and ran isolated or had failed, when its process or session was lost
	innocent  bool // another message killed the process while this one may have been open
}

// Process is one consumer process.
type Process struct {
	number   int
	Sessions map[int]*Session
	Clean    bool // stopped, and was sure of its acks
	Exited   time.Time
	killer   *Attempt // whose handler did it, if that is known
	Runs     []*Attempt
	attempts []*Attempt

	pauseHeard time.Time // since when it knows that the queue is paused; zero: it does not
	unsure     time.Time // when it last did not hear from the store, or began
}

// Died reports whether the process was gone without having made sure of its acks.
func (p *Process) Died() bool { return !p.Clean && !p.Exited.IsZero() }

// Session is one session of a process.
type Session struct {
	number   int
	Gone     time.Time // zero: it is there
	leftFrom time.Time // from when on a handler that still runs was left behind; zero: never
}

// kinds reads the tokens of a record: ";token=kind" each.
func kinds(tokens string) map[string]byte {
	of := map[string]byte{}
	for entry := range strings.SplitSeq(tokens, ";") {
		if token, kind, ok := strings.Cut(entry, "="); ok && len(kind) == 1 {
			of[token] = kind[0]
		}
	}
	return of
}

// Session returns the session of a number.
func (p *Process) Session(n int) *Session { return in(p.Sessions, n, &Session{number: n}) }
