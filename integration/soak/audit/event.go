// Package audit decides, from what the processes of a soak wrote down while they ran, whether the guarantees held. It shares
// no code with what it judges: it imports the standard library only.
package audit

import "time"

// Kind says what an Event is about.
type Kind string

// Written by a consumer process.
const (
	Opened  Kind = "opened"  // a connection; Session numbers it
	Lost    Kind = "lost"    // that connection is gone, and this process did not close it
	Began   Kind = "began"   // a run of the handler
	Ended   Kind = "ended"   // it returned; Outcome says what
	Stepped Kind = "stepped" // the store was asked, and answered or did not
	Decided Kind = "decided" // what was done with the delivery
	Stopped Kind = "stopped" // the process stops; with no Err, all it acked has reached the broker
)

// Written by the program that runs the soak.
const (
	Setup     Kind = "setup"      // what it was to be; the first event
	Published Kind = "published"  // Outcome says how
	Fault     Kind = "fault"      // injected; Fault names it
	FaultOver Kind = "fault-over" // a fault of the broker is over; Fault names it
	Exited    Kind = "exited"     // a consumer process is gone, Err says how
	Forgot    Kind = "forgot"     // the store has lost everything
	Quiet     Kind = "quiet"      // faults are over and all is published
	Drained   Kind = "drained"    // the queue is empty and has no consumer
	Undrained Kind = "undrained"  // it was not empty in time; Err says what was left
	Dead      Kind = "dead"       // a message was found in the dead-letter queue; Outcome is the reason in its x-death
	Kept      Kind = "kept"       // a key was found in the store
)

// Event is one line of a history. A field that does not apply is zero, and absent from the line.
type Event struct {
	Kind    Kind      `json:"kind"`
	At      time.Time `json:"at"`
	Process int       `json:"process,omitempty"` // number of a consumer process, from 1; the program itself is 0
	Session int       `json:"session,omitempty"` // number of a connection in its process, from 1
	ID      string    `json:"id,omitempty"`
	Token   string    `json:"token,omitempty"`
	Outcome string    `json:"outcome,omitempty"`
	Err     string    `json:"err,omitempty"`

	Redelivered bool `json:"redelivered,omitempty"` // Began, Decided

	Step      string        `json:"step,omitempty"`      // Stepped: start, fail, end
	Exclusive bool          `json:"exclusive,omitempty"` // Stepped: a START of that mode
	Beside    bool          `json:"beside,omitempty"`    // Stepped: a START of that mode, isolated but for abandoned handlers
	Verdict   string        `json:"verdict,omitempty"`   // Stepped, in lower case; empty if there was no answer
	Took      time.Duration `json:"took,omitempty"`      // Stepped: from sending the step until its answer, or until its process gave up on it

	Decision string        `json:"decision,omitempty"` // Decided
	Held     time.Duration `json:"held,omitempty"`     // Decided: since its process got the delivery
	Cause    string        `json:"cause,omitempty"`    // Decided
	Unrun    bool          `json:"unrun,omitempty"`    // Decided: before the handler ran
	Failures int           `json:"failures,omitempty"` // Stepped, Decided, Kept
	Crashes  int           `json:"crashes,omitempty"`  // Stepped, Decided, Kept
	Limit    int           `json:"limit,omitempty"`    // Stepped, Decided

	Fault string `json:"fault,omitempty"` // Fault
	Do    string `json:"do,omitempty"`    // Published: what the handler is to do
	Seq   int    `json:"seq,omitempty"`   // Published: place in the order of publishing, from 1

	Key       string        `json:"key,omitempty"`    // Kept
	State     string        `json:"state,omitempty"`  // Kept: of a record
	OpenToken string        `json:"open,omitempty"`   // Kept: of a record
	Tokens    string        `json:"tokens,omitempty"` // Kept: of a record, as stored
	TTL       time.Duration `json:"ttl,omitempty"`    // Kept; zero: none

	Plan *Plan `json:"plan,omitempty"` // Setup
}

// Plan is what the checks have to know of a soak beforehand.
type Plan struct {
	Type           string        `json:"type"` // of the queue
	Seed           uint64        `json:"seed"`
	Messages       int           `json:"messages"`
	MaxRetries     int           `json:"max_retries"`
	HandlerTimeout time.Duration `json:"handler_timeout"`
	MostHeld       time.Duration `json:"most_held"`         // for how long a delivery may be held before it goes back
	DrainWithin    time.Duration `json:"drain_within"`      // once all is published and no fault begins any more
	Cluster        bool          `json:"cluster,omitempty"` // the broker has several nodes, of which one at a time may fail
	Lanes          int           `json:"lanes,omitempty"`   // in which order is promised, by Seq modulo Lanes; 0: it is not
}

// Outcomes of a run.
const (
	OK        = "ok"
	Failed    = "failed"
	Rejected  = "rejected"
	Panicked  = "panicked"
	TimedOut  = "timed-out" // the handler's context passed its deadline
	Cancelled = "cancelled" // the handler's context was cancelled
)

// Outcomes of a publication.
const (
	Confirmed = "confirmed"
	Undecided = "undecided" // it may or may not be in the queue
	Unsent    = "unsent"
)

// What a message may have the handler do.
const (
	Succeed = "succeed"
	Slow    = "slow"   // succeed, after a while
	Fail    = "fail"   // fail as often as the message says, then succeed
	Poison  = "poison" // always fail
	Reject  = "reject"
	Panic   = "panic"   // each time
	Hang    = "hang"    // past the deadline, each time
	Deaf    = "deaf"    // the same, and go on after it
	Kill    = "kill"    // the process, each time
	Abandon = "abandon" // ignore the deadline, and kill the process later, each time
)
