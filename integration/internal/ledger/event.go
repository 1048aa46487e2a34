// Package ledger keeps the histories of the laboratory. Each process writes its events down, one a line.
package ledger

import "time"

// Kind is the subject of an Event.
type Kind string

// Recorded by a consumer process, or of it.
const (
	Opened Kind = "opened" // a session; Session numbers it
	Lost   Kind = "lost"   // that session is gone, and this process did not close it
	Asked  Kind = "asked"  // the step BEGUN is about to be sent: from here on the attempt may be counted
	Began  Kind = "began"  // a run of the handler
	Ended  Kind = "ended"  // it returned; Outcome says how
	// Uncounted says that a failed attempt was not counted: no message succeeded
	Uncounted Kind = "uncounted"
	Decided   Kind = "decided" // a delivery was dead-lettered, or is about to be
	Counted   Kind = "counted" // the process knows that an attempt at the message failed, or crashed
	Copied    Kind = "copied"  // a message is published again to retry it: Copy names the new one, Token the one before
	Exited    Kind = "exited"  // the process is gone; Err says how, if it did not stop as told
)

// Recorded by the program that sets up the processes.
const (
	Published Kind = "published"  // Outcome says how
	Fault     Kind = "fault"      // injected; Fault names it
	FaultOver Kind = "fault-over" // a fault of the broker or the dependency is over; Fault names it
	Forgot    Kind = "forgot"     // the store has lost everything
	Quiet     Kind = "quiet"      // faults are over and all is published
	Drained   Kind = "drained"    // the queue is empty and has no consumer
	Undrained Kind = "undrained"  // it was not empty in time; Err names the rest
	Dead      Kind = "dead"       // a message was found in the dead-letter queue
)

// Event is one line of a history. A field that does not apply is zero, and absent from the line.
type Event struct {
	Kind    Kind      `json:"kind"`
	At      time.Time `json:"at"`
	Process int       `json:"process,omitempty"` // number of a consumer process, from 1; the program itself is 0
	Session int       `json:"session,omitempty"` // number of a session in its process, from 1
	ID      string    `json:"id,omitempty"`
	Copy    string    `json:"copy,omitempty"` // one of the copies of an ID, where they can be told apart
	Token   string    `json:"token,omitempty"`
	Outcome string    `json:"outcome,omitempty"`
	Err     string    `json:"err,omitempty"`
	Remote  bool      `json:"remote,omitempty"` // Began: the handler is a request to the endpoint

	Fault string `json:"fault,omitempty"` // Fault, FaultOver
	Do    string `json:"do,omitempty"`    // Published: the behaviour of the handler
	Seq   int    `json:"seq,omitempty"`   // Published: place in the order of publishing, from 1
	Lane  string `json:"lane,omitempty"`  // Published: within which order is promised
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

// The behaviours that a message may ask of the handler.
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

// Faults that a rule knows. BrokerKill may take back an ack that had reached the broker. After BrokerKill and
// BrokerRestart the broker starts anew. EndpointDied is no fault that was injected, but the end of the endpoint that
// requests go to. During DependencyAway no handler can succeed.
const (
	BrokerKill     = "broker-kill"
	BrokerRestart  = "broker-restart"
	EndpointDied   = "endpoint-died"
	DependencyAway = "dependency-away"
)
