package ops

import (
	"cmp"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

// Message is one that has failed, runs again, or is suspected: those after it
// may have to wait.
type Message struct {
	ID         string    `json:"id"`
	Generation string    `json:"generation,omitempty"`
	State      State     `json:"state"`
	Attempt    int       `json:"attempt"`         // the one that runs, or is next
	Limit      int       `json:"limit,omitempty"` // attempts; 0: not known
	Since      time.Time `json:"since,omitzero"`  // first failed attempt, or start if none failed
	Running    time.Time `json:"running_since,omitzero"`
	Next       time.Time `json:"next_attempt,omitzero"` // not before
	Failures   int       `json:"failures"`
	Crashes    int       `json:"crashes"`
	// to a delay queue; it waits there, or its consumer holds it for the rest
	Moved   bool `json:"moved,omitempty"`
	Suspect bool `json:"suspect,omitempty"`
	// an operator skipped it: it is dead-lettered at its next step
	Skipped   bool `json:"skipped,omitempty"`
	Duplicate bool `json:"possible_duplicate,omitempty"` // two messages may have this id
	// that an operator set for this message, in attempts; 0: none
	OwnLimit  int    `json:"own_limit,omitempty"`
	LastError string `json:"last_error,omitempty"`
	Consumer  string `json:"consumer,omitempty"` // the process that took the last step
	Holds     bool   `json:"holds,omitempty"`    // its queue, which is paused for it

	last  time.Time // of its last step, or when it returns from a delay queue
	ready string    // if it is Ready: why its attempt does not begin, or that it does
}

// left reports whether a message has left its queue, which is empty. The broker's figures are a few seconds old, and
// a copy in a delay queue comes back.
func (m Message) left(now time.Time) bool { return !m.Moved && now.Sub(m.last) > Arriving }

// Doing returns the present activity of the message.
func (m Message) Doing(now time.Time) string {
	switch {
	case m.Holds:
		return "it blocks the queue until an operator decides"
	case m.exhausted():
		return "dead-lettered at its next step"
	case m.Runs():
		return string(m.State) + " for " + printable.Rough(now.Sub(m.Running))
	case m.State == Left:
		return "left running: its process died, or was cut off"
	case m.State == Forgotten:
		return "not delivered since: it waits for a consumer, or left the queue"
	case m.State == Ready:
		return m.ready
	case m.Moved:
		return "next attempt in " + printable.Rough(m.Next.Sub(now)) + ", moved to a delay queue"
	}
	return "next attempt in " + printable.Rough(m.Next.Sub(now))
}

// Which says which attempt runs or is next, and of how many: "attempt 3 of 5".
func (m Message) Which() string {
	switch {
	case m.exhausted() && m.Limit == 1:
		return "its only attempt failed"
	case m.exhausted():
		return fmt.Sprintf("all %s failed", printable.Plural(m.Limit, "attempt"))
	case m.Limit > 0:
		return fmt.Sprintf("attempt %d of %d", m.Attempt, m.Limit)
	}
	return fmt.Sprintf("attempt %d", m.Attempt)
}

// exhausted reports whether all attempts have failed. No other one begins.
func (m Message) exhausted() bool {
	return m.Limit > 0 && m.Attempt > m.Limit && !m.Runs() && m.State != Left
}

// Runs reports whether a consumer runs the message now.
func (m Message) Runs() bool { return m.State == Running || m.State == Isolated }

func blocking(r counter.Record, override *counter.Override, s *Status) Message {
	seen := Of(r, override, s.Time)
	m := Message{
		ID: r.ID, Generation: r.Generation, State: stateOf(r, s), Attempt: r.Counted() + 1,
		Limit: seen.Limit, Since: seen.Since,
		Failures: r.Failures, Crashes: r.Crashes, Suspect: r.Suspect, Skipped: r.State == counter.StateSkip,
		Duplicate: r.PossibleDuplicate, OwnLimit: r.OwnLimit, LastError: r.Reason, Consumer: r.Consumer,
	}
	m.Holds = r.State == counter.StateHeld
	m.last = r.LastTime
	if r.Move.Top > 0 && r.Due.After(m.last) {
		m.last = r.Due
	}
	switch m.State {
	case Running, Isolated, Left:
		m.Running = r.OpenSince
	case Ready:
		var begins bool
		m.ready, begins = s.ready()
		if begins && 1 < m.Attempt && m.Attempt == m.Limit && s.breaker.Awaited.After(s.Time) { // by some message
			m.ready = fmt.Sprintf("its last attempt may wait up to %v for another message to succeed", rules.SuccessAwaits)
		}
	case Waiting:
		m.Next = s.Time.Add(seen.Wait)
		m.Moved = r.Move.Top > 0
	default:
	}
	return m
}

// ready says why no attempt of a message that is ready begins, or that one begins.
func (s *Status) ready() (text string, begins bool) {
	switch {
	case s.Unconsumed():
		return "waits for a consumer", false
	case s.Paused != nil:
		return "waits until its queue is resumed", false
	case s.Breaker != nil && s.Breaker.Open:
		return "waits until a message succeeds, or for a probe", false
	case len(s.Waiting) > 0: // the store does not know which messages
		return "next attempt now, or after its backoff", true
	}
	return "next attempt now", true
}

func stateOf(r counter.Record, s *Status) State {
	switch {
	case r.OpenToken != "" && s.Unconsumed():
		return Left
	case r.OpenToken != "" && r.OpenMode != rules.ModeShared:
		return Isolated
	case r.OpenToken != "":
		return Running
	case r.Left(s.Time) > 0:
		return Waiting
	case counter.IsForgotten(r, s.breaker, s.Paused != nil || len(s.Waiting) > 0, s.Time):
		return Forgotten
	}
	return Ready
}

// byLength puts the message that blocks for longest first, which in an ordered
// queue is its head, and the forgotten ones last.
func byLength(a, b Message) int {
	rank := func(m Message) int {
		if m.State == Forgotten {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
}
