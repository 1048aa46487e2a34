// Package audit decides from recorded events whether the guarantees held. The simulation of package consumer records
// the events of its processes, broker, store and operators, at exact times. Check judges them. The laboratory records
// fewer events, of real servers, and has rules of its own for them. This package shares no code with the packages that
// it judges: it imports the standard library only.
package audit

import "time"

// Kind is the subject of an Event.
type Kind string

// Recorded of a process.
const (
	Started  Kind = "started"
	Opened   Kind = "opened"   // a session; Session numbers it
	Told     Kind = "told"     // it learns that its session or consumer has ended
	Closed   Kind = "closed"   // it ended a session
	Began    Kind = "began"    // a run of the handler
	Ended    Kind = "ended"    // it returned; Outcome says how
	Asked    Kind = "asked"    // the step BEGUN is about to be sent, and its handler called at the reply
	Stepped  Kind = "stepped"  // the store was asked, and replied or did not
	Copied   Kind = "copied"   // it moved a message into a delay queue: Copy names the copy, Seq is its copyNumber
	Heard    Kind = "heard"    // it read whether the queue is paused; Paused
	Unheard  Kind = "unheard"  // it asked, and got no reply
	Stopping Kind = "stopping" // it was asked to stop
	Stopped  Kind = "stopped"  // it stops, and all it acked has reached the broker
	// it is gone, Err says how; Token is of the handler that killed it, if one did
	Exited Kind = "exited"
)

// Recorded of a process of the laboratory. It learns less than a simulation knows.
const (
	Lost      Kind = "lost"      // a session is gone, and this process did not close it
	Decided   Kind = "decided"   // a delivery was dead-lettered, or is about to be
	Counted   Kind = "counted"   // the process knows that an attempt at the message failed, or crashed
	Uncounted Kind = "uncounted" // a failed attempt was not counted: no message succeeded
)

// Recorded by the laboratory itself.
const (
	Fault     Kind = "fault"      // injected; Fault names it
	FaultOver Kind = "fault-over" // a fault of the broker or the dependency is over; Fault names it
	Quiet     Kind = "quiet"      // faults are over and all is published
	Drained   Kind = "drained"    // the queue is empty and has no consumer
	Dead      Kind = "dead"       // a message was found in the dead-letter queue
	Left      Kind = "left"       // a message was found in another queue at the end
)

// Recorded of the broker, the store, the operators and the run.
const (
	Setup      Kind = "setup"     // the plan of the run; the first event
	Published  Kind = "published" // Outcome says how
	Delivered  Kind = "delivered"
	Settled    Kind = "settled"     // Decision says how; Accepted whether the broker acted on it
	Cut        Kind = "cut"         // the broker ended a session
	Forgetful  Kind = "forgetful"   // the broker forgot that it had delivered a message
	Written    Kind = "written"     // the store took a step: Before, Record
	Forgot     Kind = "forgot"      // the store has lost everything
	Skipped    Kind = "skipped"     // a message, by an operator
	PauseBegan Kind = "pause-began" // by an operator
	PauseEnded Kind = "pause-ended"
	Stalled    Kind = "stalled"   // the whole machine stood still
	Undrained  Kind = "undrained" // messages or processes were left at the end; Err names them
	Happened   Kind = "happened"  // anything else, for a reader; Err is its text
)

// Event is one thing that happened. A field that does not apply is zero.
type Event struct {
	Kind    Kind      `json:"kind,omitzero"`
	At      time.Time `json:"at,omitzero"`
	Process int       `json:"process,omitzero"` // number of a consumer process, from 1
	Session int       `json:"session,omitzero"` // number of a session in its process, from 1
	Tag     uint64    `json:"tag,omitzero"`     // of a delivery in its session
	ID      string    `json:"id,omitzero"`
	Copy    string    `json:"copy,omitzero"` // one of the publications of an ID
	Token   string    `json:"token,omitzero"`
	Outcome string    `json:"outcome,omitzero"`
	Err     string    `json:"err,omitzero"`

	Redelivered bool      `json:"redelivered,omitzero"` // Delivered, Began
	Until       time.Time `json:"until,omitzero"`       // Began: its deadline; zero: Plan.HandlerTimeout later
	AtMost      int       `json:"atMost,omitzero"`      // Ended: failed attempts that the handler allows; 0: not said

	Step      string  `json:"step,omitzero"`      // Stepped, Written
	Isolated  bool    `json:"isolated,omitzero"`  // Stepped, Written: a START of that mode
	Beside    bool    `json:"beside,omitzero"`    // Stepped, Written: a START of that mode: but for abandoned handlers
	Code      string  `json:"code,omitzero"`      // Stepped, Written: in lower case; empty if there was no reply
	Late      bool    `json:"late,omitzero"`      // Written: its sender may have given up on it
	First     bool    `json:"first,omitzero"`     // Written: of a delivery that is not redelivered
	Succeeded bool    `json:"succeeded,omitzero"` // Written: an END after success
	Limit     int     `json:"limit,omitzero"`     // Written
	Before    *Record `json:"before,omitzero"`    // Written: nil: there was none
	Record    *Record `json:"record,omitzero"`    // Written: nil: there is none

	Decision string `json:"decision,omitzero"` // Settled
	Accepted bool   `json:"accepted,omitzero"` // Settled
	Paused   bool   `json:"paused,omitzero"`   // Heard

	Do   string `json:"do,omitzero"`   // Published: the behaviour of the handler
	Seq  int    `json:"seq,omitzero"`  // Published: place in the order of publishing, from 1
	Lane string `json:"lane,omitzero"` // Published: within which order is promised

	Remote bool   `json:"remote,omitzero"` // Began: the handler is a request to an endpoint
	Fault  string `json:"fault,omitzero"`  // Fault, FaultOver

	Plan *Plan `json:"plan,omitzero"` // Setup
}

// Record is the stored record of a message.
type Record struct {
	State     string        `json:"state,omitzero"` // empty: live
	Failures  int           `json:"failures,omitzero"`
	Crashes   int           `json:"crashes,omitzero"`
	Tokens    string        `json:"tokens,omitzero"`    // as stored: ";token=kind" each
	Duplicate bool          `json:"duplicate,omitzero"` // possibly two messages of one id
	Cause     string        `json:"cause,omitzero"`
	Age       time.Duration `json:"age,omitzero"` // from its first counted attempt to its last
}

// Plan has the settings that the checks have to know beforehand.
type Plan struct {
	MaxRetries     int
	MaxAge         time.Duration // of a message that is retried; zero: any
	Isolation      string        // IsolationOff; empty: of suspects
	HandlerTimeout time.Duration
	DrainTimeout   time.Duration
	Mixed          bool // some consumers have no delay queues, and others have
	Ordered        bool // order is promised in each Lane
}

// IsolationOff is a value of Plan.Isolation.
const IsolationOff = "off"

// Outcomes of a run.
const (
	OK         = "ok"
	Failed     = "failed"
	Rejected   = "rejected"
	Panicked   = "panicked"
	Goexit     = "goexit"      // the handler ended its goroutine
	TimedOut   = "timed-out"   // the handler's context passed its deadline
	NotCounted = "not-counted" // the handler failed, and asked not to be counted
	Crashed    = "crashed"     // the handler reported that a process crashed which worked for it
	Cancelled  = "cancelled"   // the handler's context was cancelled
)

// Outcomes of a publication.
const (
	Confirmed = "confirmed"
	Undecided = "undecided" // it may or may not be in the queue
	Unsent    = "unsent"
)

// Decisions about a delivery.
const (
	Ack        = "ack"
	Requeue    = "requeue"
	DeadLetter = "dead-letter"
)

// Steps.
const (
	StepStart = "start"
	StepBegun = "begun" // that the handler of an isolated attempt is called now
	StepFail  = "fail"
	StepEnd   = "end"
	StepMoved = "moved"
)

// Replies that a check knows.
const (
	ReplyRun        = "run"
	ReplyBegun      = "begun"
	ReplyRequeue    = "requeue"
	ReplyExhausted  = "exhausted"
	ReplyMove       = "move"
	ReplySuperseded = "superseded"
)

// The behaviours that a message may ask of the handler.
const (
	Succeed = "succeed"
	Slow    = "slow"   // succeed, after a while
	Fail    = "fail"   // fail as often as the message says, then succeed
	Poison  = "poison" // always fail
	Reject  = "reject"
	Panic   = "panic" // each time
	Hang    = "hang"  // past the deadline, each time
	Deaf    = "deaf"  // the same, and go on after it
	Kill    = "kill"  // the process, each time
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
