// Package ops has the facts that operators see and the changes that they make. The command and the console share it. A
// Collector finds the messages that block a queue and counts its dead letters, or shows all queues. It gathers
// facts from the broker, the store and the management API, and pure functions judge these. Changes is the table of all
// changes.
package ops

import (
	"fmt"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
)

// Status is a queue at one moment. All and Collect return it; broker and store say one half each.
type Status struct {
	Time    time.Time `json:"time,omitzero"` // by the store
	VHost   string    `json:"vhost"`
	Queue   string    `json:"queue"`
	Trouble Trouble   `json:"trouble,omitempty"` // the worst; only All sets it
	Absent  bool      `json:"-"`                 // the broker has no such queue: the rest comes from the store alone

	// the deleted queue whose dead letters it takes; empty: it is a queue of its own
	DeadLettersOf string `json:"dead_letters_of,omitempty"`

	Ready      *int        `json:"ready,omitempty"` // nil: the broker did not say; so are the next ones
	Consumers  *int        `json:"consumers,omitempty"`
	Unacked    *int        `json:"unacked,omitempty"` // by the management API, as the rates: up to 10 s old
	Rates      *Rates      `json:"rates,omitempty"`
	Partitions []Partition `json:"partitions,omitempty"` // empty: the queue is not partitioned
	Limit      *Limit      `json:"limit,omitempty"`

	Head *Message `json:"head,omitempty"` // the message that blocks for longest
	// for how long it has blocked; zero if no message does, or only ones that are forgotten or wait in a delay queue
	Blocked time.Duration `json:"-"`

	Retrying  int               `json:"retrying"` // with a counted failure or crash, or whose attempt is in the store
	Forgotten int               `json:"forgotten,omitempty"`
	Blocking  []Message         `json:"blocking,omitzero"` // of Retrying, Question.Most at most; nil: All lists none
	Waiting   []WaitingMessages `json:"waiting,omitempty"` // whose attempts are not counted, by reason
	Holding   *Holding          `json:"holding,omitempty"` // the message for which the queue is paused
	Dead      DeadLetters       `json:"dead_lettered"`

	// Findings are errors that the doctor finds. All sees those that lists of the management API show, Collect all. If
	// dead letters are missing, Collect adds the warnings about the dead-letter route.
	Findings []inspect.Finding `json:"findings,omitempty"`

	BlockedLanes int        `json:"blocked_lanes,omitempty"`
	Processes    []Consumer `json:"processes,omitempty"` // that consume the queue, by the store
	Silent       int        `json:"silent,omitempty"`    // of Processes: they have stopped asking the store

	Breaker     *Breaker      `json:"breaker,omitempty"` // nil: it is closed
	Stopped     time.Duration `json:"-"`                 // for how long no message has succeeded; 0: its breaker is closed
	Paused      *counter.Note `json:"paused,omitempty"`
	Undecodable string        `json:"undecodable,omitempty"` // the note of consumers, of the last minute

	// other queues whose dead letters land in Dead.Queue: Missing is of all together
	Sharing   int  `json:"sharing,omitempty"`
	StoreSeen bool `json:"-"`                 // the store said its half
	Partial   bool `json:"partial,omitempty"` // the store has more records than were read
	// why the store's half is not known, of this queue alone: its figures are 0 or too low
	Unknown string   `json:"unknown,omitempty"`
	Notes   []string `json:"notes,omitempty"` // each part that Collect could not read, and why; not escaped
	Assumed string   `json:"-"`               // the note that Dead.Queue is a guess; empty: it is known

	breaker counter.Breaker // also a closed one
}

// Rates are messages a second.
type Rates struct {
	In    float64 `json:"in"`
	Out   float64 `json:"out"`
	Acked float64 `json:"acked"`
}

// lead sorts the blocking messages, the longest first, and finds the head. A message that left the queue without a
// step, for example because it expired, blocks nothing.
func (s *Status) lead() {
	if s.Ready != nil && s.Unacked != nil && *s.Ready+*s.Unacked == 0 {
		s.Blocking = slices.DeleteFunc(s.Blocking, func(m Message) bool { return m.left(s.Time) })
	}
	slices.SortFunc(s.Blocking, byLength)
	if len(s.Blocking) == 0 {
		return
	}
	s.Head = new(s.Blocking[0])
	if s.Head.State != Forgotten && !s.Head.Moved {
		s.Blocked = max(s.Time.Sub(s.Head.Since), 0)
	}
}

// Unconsumed reports whether the queue is known to have no consumer.
func (s Status) Unconsumed() bool { return s.Consumers != nil && *s.Consumers == 0 }

// AllWaiting sums up Waiting. Since and Why are those of the message that waits for longest.
func (s Status) AllWaiting() (sum WaitingMessages) {
	for i, w := range s.Waiting {
		if i == 0 {
			sum.Since, sum.Why = w.Since, w.Why
		}
		sum.Messages += w.Messages
	}
	return sum
}

func (s *Status) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}
