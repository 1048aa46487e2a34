package ops

import (
	"context"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// State is the present or last state of a message, such as retrying or dead-lettered.
type State string

// The states of a record.
const (
	Running      State = "running"
	Retrying     State = "retrying" // it failed, or was stopped, and gets another attempt
	WasReset     State = "reset"    // by an operator; no attempt has been counted since
	Skipped      State = "skipped"  // by an operator: it is dead-lettered at its next step
	DeadLettered State = "dead-lettered"
	Done         State = "done" // handled; kept for ten minutes
)

// The states of a message that blocks its queue: it is Running, or one of these.
const (
	Isolated  State = "running isolated" // no other handler runs in its process meanwhile
	Left      State = "left running"     // but the queue has no consumer
	Waiting   State = "waiting"          // for its backoff
	Ready     State = "ready"            // for the next consumer
	Forgotten State = "forgotten"        // ready for long: there is no consumer, or the message left the queue otherwise
)

// StateOf judges a record.
func StateOf(r counter.Record) State {
	switch {
	case r.State == counter.StateDeadLetter:
		return DeadLettered
	case r.State == counter.StateDone:
		return Done
	case r.State == counter.StateSkip:
		return Skipped
	case r.OpenToken != "":
		return Running
	case r.Counted() == 0 && r.Reset != (counter.Note{}):
		return WasReset
	}
	return Retrying
}

// Record is one generation of a message as an operator sees it. Its strings come from messages and handlers: they may
// hold control characters.
type Record struct {
	VHost      string        `json:"vhost"`
	Queue      string        `json:"queue"`
	ID         string        `json:"id"`
	Generation string        `json:"generation,omitempty"`
	State      State         `json:"state"`
	Failures   int           `json:"failures"`
	Crashes    int           `json:"crashes"`
	Cause      counter.Cause `json:"cause,omitempty"` // of the last failed attempt
	LastError  string        `json:"last_error,omitempty"`
	First      time.Time     `json:"first_failed,omitzero"` // attempt
	Last       time.Time     `json:"last_failed,omitzero"`  // attempt
	Due        time.Time     `json:"due,omitzero"`          // when the next attempt may begin
	Running    time.Time     `json:"running_since,omitzero"`
	Suspect    bool          `json:"suspect,omitempty"`
	Starts     int64         `json:"starts"`
	Consumer   string        `json:"consumer,omitempty"`
	History    []Attempt     `json:"history,omitempty"` // the last counted attempts, the oldest first
	Duplicate  bool          `json:"possible_duplicate,omitempty"`
	// failed attempts at which the message is dead-lettered; 0: not known
	Limit    int           `json:"limit,omitempty"`
	OwnLimit int           `json:"own_limit,omitempty"` // that an operator set for this message, in attempts; 0: none
	Reset    *counter.Note `json:"reset,omitempty"`
	Skip     *counter.Note `json:"skip,omitempty"`
	Removed  time.Time     `json:"removed,omitzero"` // when its dead letter was replayed or dropped
	Expires  time.Time     `json:"expires,omitzero"`

	Since time.Time     `json:"-"` // First, or when the last attempt began if none has failed
	Age   time.Duration `json:"-"` // since then
	Wait  time.Duration `json:"-"` // until Due
}

// Judge returns a function that judges records as Of does, with the queue's override and the present time of the store.
// Use it at once, because it keeps both.
func (q *Queue) Judge(ctx context.Context) (func(counter.Record) Record, error) {
	override, err := q.Override(ctx)
	if err != nil {
		return nil, err
	}
	now, err := q.Store.Now(ctx)
	return func(r counter.Record) Record { return Of(r, override, now) }, err
}

// Of judges a record at a moment. The override is that of its queue; nil if there is none.
func Of(r counter.Record, override *counter.Override, now time.Time) Record {
	out := Record{
		VHost: r.VHost, Queue: r.Queue, ID: r.ID, Generation: r.Generation, State: StateOf(r), Failures: r.Failures,
		Crashes: r.Crashes,
		Cause:   r.Cause, LastError: lastError(r), First: r.FirstTime, Last: r.LastTime, Suspect: r.Suspect, Starts: r.Starts,
		Consumer: r.Consumer,
		History:  History(r), Duplicate: r.PossibleDuplicate,
		Limit: r.InForce(override), OwnLimit: r.OwnLimit, Removed: r.Removed, Since: r.Since(), Wait: r.Left(now),
	}
	if r.Reset != (counter.Note{}) {
		out.Reset = &r.Reset
	}
	if r.Skipped != (counter.Note{}) {
		out.Skip = &r.Skipped
	}
	out.Age = now.Sub(out.Since)
	switch out.State {
	case Running:
		out.Running = r.OpenSince
	case Retrying:
		out.Due = r.Due
	default:
	}
	if r.TTL > 0 {
		out.Expires = now.Add(r.TTL).UTC().Truncate(time.Second)
	}
	return out
}

// lastError is the error of the last failed attempt. The Reason of a message that was skipped is the operator's.
func lastError(r counter.Record) string {
	switch n := len(r.History); {
	case r.Cause != counter.CauseSkipped:
		return r.Reason
	case n > 0:
		return r.History[n-1].Reason
	}
	return ""
}

// Attempt is a counted attempt of a message.
type Attempt struct {
	Number   int           `json:"number"`
	At       time.Time     `json:"at"`
	RanMS    int64         `json:"ran_ms,omitempty"` // not known of a crash
	Cause    counter.Cause `json:"cause"`
	Consumer string        `json:"consumer,omitempty"`
	Reason   string        `json:"reason,omitempty"`
}

// History returns the last counted attempts that a record remembers, the oldest first.
func History(r counter.Record) []Attempt {
	var out []Attempt
	for _, n := range r.History {
		out = append(out, Attempt{n.Number, n.At, n.Ran.Milliseconds(), n.Cause, n.Consumer, n.Reason})
	}
	return out
}
