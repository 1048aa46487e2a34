// Package audit decides from recorded events whether the guarantees held. The simulation of package consumer records
// the events of its processes, broker, store and operators, at exact times. This package judges. It shares no code with
// the packages that it judges: it imports the standard library only.
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
	Asked    Kind = "asked"    // the step BEGUN is about to be sent, and its handler called once it is answered
	Stepped  Kind = "stepped"  // the store was asked, and answered or did not
	Copied   Kind = "copied"   // it moved a message into a delay queue: Copy names the copy, Seq is its copyNumber
	Heard    Kind = "heard"    // it read whether the queue is paused; Paused
	Unheard  Kind = "unheard"  // it asked, and got no answer
	Stopping Kind = "stopping" // it was asked to stop
	Stopped  Kind = "stopped"  // it stops, and all it acked has reached the broker
	// it is gone, Err says how; Token is of the handler that killed it, if one did
	Exited Kind = "exited"
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
	Kind    Kind      `json:",omitzero"`
	At      time.Time `json:",omitzero"`
	Process int       `json:",omitzero"` // number of a consumer process, from 1
	Session int       `json:",omitzero"` // number of a session in its process, from 1
	Tag     uint64    `json:",omitzero"` // of a delivery in its session
	ID      string    `json:",omitzero"`
	Copy    string    `json:",omitzero"` // one of the publications of an ID
	Token   string    `json:",omitzero"`
	Outcome string    `json:",omitzero"`
	Err     string    `json:",omitzero"`

	Redelivered bool      `json:",omitzero"` // Delivered, Began
	Until       time.Time `json:",omitzero"` // Began: its deadline; zero: Plan.HandlerTimeout later
	AtMost      int       `json:",omitzero"` // Ended: failed attempts that the handler allows; 0: it did not say

	Step      string  `json:",omitzero"` // Stepped, Written
	Isolated  bool    `json:",omitzero"` // Stepped, Written: a START of that mode
	Beside    bool    `json:",omitzero"` // Stepped, Written: a START of that mode, isolated but for abandoned handlers
	Code      string  `json:",omitzero"` // Stepped, Written: in lower case; empty if there was no answer
	Late      bool    `json:",omitzero"` // Written: its sender may have given up on it
	First     bool    `json:",omitzero"` // Written: of a delivery that is not redelivered
	Succeeded bool    `json:",omitzero"` // Written: an END after success
	Limit     int     `json:",omitzero"` // Written
	Before    *Record `json:",omitzero"` // Written: nil: there was none
	Record    *Record `json:",omitzero"` // Written: nil: there is none

	Decision string `json:",omitzero"` // Settled
	Accepted bool   `json:",omitzero"` // Settled
	Paused   bool   `json:",omitzero"` // Heard

	Do   string `json:",omitzero"` // Published: the behaviour of the handler
	Seq  int    `json:",omitzero"` // Published: place in the order of publishing, from 1
	Lane string `json:",omitzero"` // Published: within which order is promised

	Plan *Plan `json:",omitzero"` // Setup
}

// Record is the stored record of a message.
type Record struct {
	State        string        `json:",omitzero"` // empty: live
	Failures     int           `json:",omitzero"`
	Crashes      int           `json:",omitzero"`
	Tokens       string        `json:",omitzero"` // as stored: ";token=kind" each
	OpenToken    string        `json:",omitzero"`
	OpenIsolated bool          `json:",omitzero"` // and it has begun
	OpenReserved bool          `json:",omitzero"` // a START of that mode let it run, and it has not
	Suspect      bool          `json:",omitzero"`
	Duplicate    bool          `json:",omitzero"` // possibly two messages of one id
	Cause        string        `json:",omitzero"`
	Age          time.Duration `json:",omitzero"` // from its first counted attempt to its last
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

// Confirmed is the outcome of a publication.
const Confirmed = "confirmed"

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
	ReplyWait       = "wait"
	ReplyRequeue    = "requeue"
	ReplyExhausted  = "exhausted"
	ReplyMove       = "move"
	ReplySuperseded = "superseded"
)
