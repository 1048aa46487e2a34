// Package audit decides from recorded events whether the guarantees held. The simulation of package consumer and the
// soak record; this package judges. It shares no code with what it judges: it imports the standard library only.
package audit

import "time"

// Kind says what an Event is about.
type Kind string

// Recorded by a consumer process, or of it.
const (
	Opened   Kind = "opened"   // a session; Session numbers it
	Lost     Kind = "lost"     // that session is gone, and this process did not close it
	Began    Kind = "began"    // a run of the handler
	Ended    Kind = "ended"    // it returned; Outcome says what
	Asked    Kind = "asked"    // the step BEGUN is about to be sent, and its handler called once it is answered
	Stepped  Kind = "stepped"  // the store was asked, and answered or did not
	Decided  Kind = "decided"  // what was done with the delivery; Decision says what
	Stopping Kind = "stopping" // the process was asked to stop
	Stopped  Kind = "stopped"  // the process stops; with no Err, all it acked has reached the broker
	// the process is gone, Err says how; Token is of the handler that killed it, if that is known
	Exited Kind = "exited"
)

// Recorded by the program that sets up the processes.
const (
	Setup     Kind = "setup"      // what it was to be; the first event
	Published Kind = "published"  // Outcome says how
	Fault     Kind = "fault"      // injected; Fault names it
	FaultOver Kind = "fault-over" // a fault of the broker is over; Fault names it
	Forgot    Kind = "forgot"     // the store has lost everything
	Quiet     Kind = "quiet"      // faults are over and all is published
	Drained   Kind = "drained"    // the queue is empty and has no consumer
	Undrained Kind = "undrained"  // it was not empty in time; Err says what was left
	Dead      Kind = "dead"       // a message was found in the dead-letter queue; Outcome is the reason in its x-death
	Kept      Kind = "kept"       // a key was found in the store; with an ID, Record is what it holds
)

// Recorded by a simulated broker, store and operator: see Plan.Complete.
const (
	Delivered  Kind = "delivered"
	Settled    Kind = "settled"     // Decision says how; Accepted whether the broker acted on it
	Cut        Kind = "cut"         // the broker ended a session
	Closed     Kind = "closed"      // a process ended a session
	Told       Kind = "told"        // a process learns that its session or consumer has ended
	Forgetful  Kind = "forgetful"   // the broker forgot that it had delivered a message
	Written    Kind = "written"     // the store took a step: Before, Record
	Skipped    Kind = "skipped"     // a message, by an operator
	PauseBegan Kind = "pause-began" // by an operator
	PauseEnded Kind = "pause-ended"
	Heard      Kind = "heard"    // a process read whether the queue is paused; Paused
	Unheard    Kind = "unheard"  // it asked, and got no answer
	Copied     Kind = "copied"   // a message, by a process, into a bucket: Copy names the copy, Seq is its copyNumber
	Stalled    Kind = "stalled"  // the whole machine stood still
	Started    Kind = "started"  // a process
	Happened   Kind = "happened" // anything else, for a reader; Err says what
)

// Event is one line of a history. A field that does not apply is zero, and absent from the line.
type Event struct {
	Kind    Kind      `json:"kind"`
	At      time.Time `json:"at"`
	Process int       `json:"process,omitempty"` // number of a consumer process, from 1; the program itself is 0
	Session int       `json:"session,omitempty"` // number of a session in its process, from 1
	Tag     uint64    `json:"tag,omitempty"`     // of a delivery in its session, where that is known
	ID      string    `json:"id,omitempty"`
	Copy    string    `json:"copy,omitempty"` // one of the publications of an ID, where they can be told apart
	Token   string    `json:"token,omitempty"`
	Outcome string    `json:"outcome,omitempty"`
	Err     string    `json:"err,omitempty"`

	Redelivered bool      `json:"redelivered,omitempty"` // Delivered, Began, Decided
	Until       time.Time `json:"until,omitzero"`        // Began: its deadline; zero: Plan.HandlerTimeout later
	// Began, Decided: the handler is a request to another process: see remote.go
	Remote bool `json:"remote,omitempty"`

	Step     string `json:"step,omitempty"`     // Stepped, Written
	Isolated bool   `json:"isolated,omitempty"` // Stepped, Written: a START of that mode
	// Stepped, Written: a START of that mode, isolated but for abandoned handlers
	Beside bool   `json:"beside,omitempty"`
	Code   string `json:"code,omitempty"` // Stepped, Written: in lower case; empty if there was no answer
	// Stepped: from sending the step until its answer, or until its process gave up on it
	Took      time.Duration `json:"took,omitempty"`
	Late      bool          `json:"late,omitempty"`      // Written: its sender may have given up on it
	First     bool          `json:"first,omitempty"`     // Written: of a delivery that is not redelivered
	Succeeded bool          `json:"succeeded,omitempty"` // Written: an END after success
	Before    *Record       `json:"before,omitempty"`    // Written: nil: there was none
	Record    *Record       `json:"record,omitempty"`    // Written, Kept: nil: there is none

	Accepted bool `json:"accepted,omitempty"` // Settled
	Paused   bool `json:"paused,omitempty"`   // Heard

	Decision string        `json:"decision,omitempty"` // Decided, Settled
	Held     time.Duration `json:"held,omitempty"`     // Decided: since its process got the delivery
	Cause    string        `json:"cause,omitempty"`    // Decided
	Unrun    bool          `json:"unrun,omitempty"`    // Decided: before the handler ran
	Failures int           `json:"failures,omitempty"` // Stepped, Decided
	Crashes  int           `json:"crashes,omitempty"`  // Stepped, Decided
	Limit    int           `json:"limit,omitempty"`    // Stepped, Written, Decided

	// Ended: the failed attempts that the handler allows a message with this failure; 0: it did not say
	AtMost int `json:"at_most,omitempty"`

	Fault string `json:"fault,omitempty"` // Fault, FaultOver
	Do    string `json:"do,omitempty"`    // Published: what the handler is to do
	Seq   int    `json:"seq,omitempty"`   // Published: place in the order of publishing, from 1
	Lane  string `json:"lane,omitempty"`  // Published: within which order is promised

	Key string        `json:"key,omitempty"` // Kept
	TTL time.Duration `json:"ttl,omitempty"` // Kept; zero: none

	Plan *Plan `json:"plan,omitempty"` // Setup
}

// Record is what the store keeps of a message.
type Record struct {
	State        string        `json:"state,omitempty"` // empty: live
	Failures     int           `json:"failures,omitempty"`
	Crashes      int           `json:"crashes,omitempty"`
	Tokens       string        `json:"tokens,omitempty"` // as stored: ";token=kind" each
	OpenToken    string        `json:"open,omitempty"`
	OpenIsolated bool          `json:"open_isolated,omitempty"` // and it has begun
	OpenReserved bool          `json:"open_reserved,omitempty"` // a START of that mode let it run, and it has not
	Suspect      bool          `json:"suspect,omitempty"`
	Duplicate    bool          `json:"duplicate,omitempty"` // possibly two messages of one id
	Fence        int64         `json:"fence,omitempty"`
	Cause        string        `json:"cause,omitempty"`
	Age          time.Duration `json:"age,omitempty"` // Written: from its first counted attempt to its last
	TTL          time.Duration `json:"ttl,omitempty"` // Written; zero: none
}

// Plan is what the checks have to know beforehand.
type Plan struct {
	Type           string        `json:"type"` // of the queue
	Seed           uint64        `json:"seed"`
	Messages       int           `json:"messages"`
	MaxRetries     int           `json:"max_retries"`
	MaxAge         time.Duration `json:"max_age,omitempty"`   // of a message that is retried; zero: any
	Isolation      string        `json:"isolation,omitempty"` // IsolationOff; empty: of suspects
	HandlerTimeout time.Duration `json:"handler_timeout"`
	DrainTimeout   time.Duration `json:"drain_timeout,omitempty"`
	MostHeld       time.Duration `json:"most_held"` // for how long a delivery may be held before it goes back
	// once all is published and no fault begins any more; zero: see Undrained
	DrainWithin time.Duration `json:"drain_within"`
	// the broker has several nodes, of which one at a time may fail
	Cluster bool `json:"cluster,omitempty"`
	Mixed   bool `json:"mixed,omitempty"`   // some consumers have no delay queues, and others have
	Ordered bool `json:"ordered,omitempty"` // order is promised in each Lane

	// Complete says that the broker, the store and the operators recorded what they did, at exact times. Else it is
	// inferred from what the processes saw of it, with room for what they could not see.
	Complete bool `json:"complete,omitempty"`
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

// Decisions about a delivery that a check knows.
const (
	Ack        = "ack"
	Requeue    = "requeue"
	DeadLetter = "dead-letter"
	Retry      = "retry" // after the wait
	Leave      = "leave" // unsettled
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
	ReplyWait       = "wait"
	ReplyRequeue    = "requeue"
	ReplyExhausted  = "exhausted"
	ReplyMove       = "move"
	ReplySuperseded = "superseded"
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

// Faults that a check knows. BrokerKill may take back an ack that had reached the broker. After either the broker
// starts anew.
const (
	BrokerKill    = "broker-kill"
	BrokerRestart = "broker-restart"
)
