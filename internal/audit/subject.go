package audit

import (
	"strings"
	"time"
)

type message struct {
	id, do    string
	copies    int // that may have reached the queue
	confirmed bool
	runs      []*attempt // in the order in which they began
	attempts  []*attempt // those that did not run too
	dead      []Event
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

// published is one publication of a message.
type published struct {
	name, lane string
	seq        int
	of         *message
	done       time.Time // first handled, dead-lettered or acked; zero: not
	settled    string    // by the broker
	copyNumber int       // of a copy that a process made
}

// attempt has the events of one token.
type attempt struct {
	token    string
	id, copy string
	process  *process
	session  *session
	tag      uint64
	began    time.Time // the handler; zero: not recorded
	until    time.Time // its deadline
	ended    time.Time // zero: not recorded
	heard    time.Time // its first event
	outcome  string
	atMost   int     // failed attempts that its handler allowed, if it said so in time
	first    bool    // neither redelivered nor in place
	steps    []Event // as its process saw them
	written  []Event // as the store took them

	asked     bool // its BEGUN was sent, so its handler is about to be called
	kind      byte // how it was counted: f, c; 0: it was not, or that was reversed
	crashed   bool // it was counted as a crash at some time
	countable bool // as a crash: it was open, and ran isolated or had failed, when its process or session was lost
	innocent  bool // another message killed the process while this one may have been open
}

type process struct {
	number   int
	sessions map[int]*session
	clean    bool // stopped, and was sure of its acks
	exited   time.Time
	killer   *attempt // whose handler did it, if that is known
	runs     []*attempt
	attempts []*attempt

	pauseHeard time.Time // since when it knows that the queue is paused; zero: it does not
	unsure     time.Time // when it last did not hear from the store, or began
}

type session struct {
	number   int
	gone     time.Time // zero: it is there
	leftFrom time.Time // from when on a handler that still runs was left behind; zero: never
}

func (c *published) finish(at time.Time) {
	if c.done.IsZero() {
		c.done = at
	}
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

func (p *process) session(n int) *session { return in(p.sessions, n, &session{number: n}) }
