// Package ops has the facts that operators see and the changes that they make. The command and the console share it. A
// Collector finds the messages that block a queue and counts its dead letters, or summarises all queues. It gathers
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

// Status is a queue at one moment.
type Status struct {
	Time       time.Time         `json:"time"` // by the store
	VHost      string            `json:"vhost"`
	Queue      string            `json:"queue"`
	Ready      int               `json:"ready"`
	Consumers  int               `json:"consumers"`
	Partitions []Partition       `json:"partitions,omitempty"` // empty: the queue is not partitioned
	Unacked    *int              `json:"unacked,omitempty"`    // by the management API, as the rates: up to 10 s old
	Rates      *Rates            `json:"rates,omitempty"`
	Limit      *Limit            `json:"limit,omitempty"`
	Blocking   []Message         `json:"blocking"`
	Blocked    int               `json:"blocked"`           // messages, with those beyond Collector.Most
	Waiting    []WaitingMessages `json:"waiting,omitempty"` // whose attempts are not counted, by reason
	Dead       DeadLetters       `json:"dead_lettered"`

	// Findings are errors that the doctor finds, and members that are down, up to 10 s old. If dead letters are
	// missing, they also have the warnings about the dead-letter route.
	Findings []inspect.Finding `json:"findings,omitempty"`

	BlockedLanes int      `json:"blocked_lanes,omitempty"`
	Notes        []string `json:"notes,omitempty"` // each part that could not be read, and why; not escaped
	Assumed      string   `json:"-"`               // the note that Dead.Queue is a guess; empty: it is known

	Breaker     *Breaker      `json:"breaker,omitempty"` // nil: it is closed
	Paused      *counter.Note `json:"paused,omitempty"`
	Processes   []Consumer    `json:"processes,omitempty"`   // that consume the queue, by the store
	Holding     *Holding      `json:"holding,omitempty"`     // the message for which the queue is paused
	Undecodable string        `json:"undecodable,omitempty"` // the note of consumers, of the last minute

	breaker counter.Breaker // also a closed one
}

// Rates are messages a second.
type Rates struct {
	In    float64 `json:"in"`
	Out   float64 `json:"out"`
	Acked float64 `json:"acked"`
}

// block lists the messages that block, the longest first: most of them at most, or all if most is 0. A message that
// left the queue without a step, for example because it expired, blocks nothing.
func (s *Status) block(most int) {
	if s.Unacked != nil && s.Ready+*s.Unacked == 0 {
		s.Blocking = slices.DeleteFunc(s.Blocking, func(m Message) bool { return m.left(s.Time) })
	}
	slices.SortFunc(s.Blocking, byLength)
	if s.Blocked = len(s.Blocking); most > 0 {
		s.Blocking = s.Blocking[:min(most, s.Blocked)]
	}
}

func (s *Status) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}
