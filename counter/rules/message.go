// Package rules decides how a step of the retry protocol changes the record of a message.
//
// Each function takes one step: [Start], [Begun], [Fail], [End] and [Moved] for a consumer; [Limit], [Reset], [Skip]
// and [Remove] for an operator. It gets the record, the state of the queue, and the time by the store's
// clock. It changes the record and the queue, and returns the reply. It reads no clock and does no I/O, so that a
// store can repeat it if its write is refused.
//
// A step also returns how long the store keeps the record from now on. Zero means that the step changed nothing.
//
// Package counter checks the arguments, takes the steps and names these types. Its scripts are a port of the rules:
// they save a round trip. The tests of package counter hold both equal.
package rules

import (
	"fmt"
	"time"
)

// Bounds of the texts of a record, in bytes. AMQP's own ids have at most 255.
const (
	MaxReason   = 1024 // of a reason
	MaxStoredID = 512  // of an id, which is kept for people
)

// MaxFence is the largest Attempt.Fence: the microseconds from 1970 to 2112, half the largest number that a script
// counts exactly.
const MaxFence = 1 << 52

// Message identifies one generation of one message in one queue, which has one count.
type Message struct {
	VHost string
	Queue string
	ID    string // MessageId, or the result of the consumer's Key func; must not be empty

	// Generation distinguishes one use of the id from the next. It is empty until the message is dead-lettered and
	// comes back.
	Generation string
}

// Attempt identifies one call of a handler for a message.
type Attempt struct {
	Message

	// Token is unique to this attempt: 1 to 64 characters of A-Z a-z 0-9 _ and -.
	Token string

	// Consumer is the process of the attempt, shown to operators.
	Consumer string

	// First reports that the delivery is not redelivered and that this is its first attempt. A tombstone or a success
	// that is older than Received then belongs to an earlier use of the id, and does not count. See also
	// Record.PossibleDuplicate.
	First bool

	// Received is when this process received the delivery. Only a First attempt needs it. If zero, now. The rules
	// expect it by the store's clock.
	Received time.Time

	// Fence is the fence that the delivery carries. The fences of this generation are greater. Only Start uses it.
	// Zero: none.
	Fence int64

	// Delay is set by a consumer with delay queues, and for every delivery that came through it. Only Start and Fail
	// use it.
	Delay Delay

	// MaxAge is the longest time between the first and the last counted attempt, in whole milliseconds, rounded up. If
	// it is longer, Start and Fail exhaust the message, whatever its count, with CauseTooOld. An Override replaces
	// MaxAge, and the message's own limit lifts it. Zero: no such limit.
	MaxAge time.Duration

	// HoldsQueue is set by a consumer that keeps the order of its whole queue. Where Start and Fail would exhaust the
	// message, they reply ReplyHeld: call HoldQueue then. The message stays at the head of the queue until it gets a
	// limit of its own, Skip or Reset.
	HoldsQueue bool

	// Progress is set by a consumer with a breaker. Only Start and Fail use it. The rules expect its times by the store's
	// clock.
	Progress Progress
}

// Delay has the arguments of steps for delay queues, in which messages wait for long delays: a copy of the message
// waits in another queue, and the original is acked. See docs/protocol.md. The zero value: the consumer has no delay
// queues.
type Delay struct {
	CopyNumber int64         // the number that a copy carries; 0: the delivery is no copy
	Above      time.Duration // a longer wait moves the message; zero: no wait does
	Lease      time.Duration // how long an open attempt at a moved message counts as running
	Body       string        // a fingerprint of the message, to tell it from another one with its id: 1 to 32 of 0-9 a-f
}

// String returns the argument of a step for delay queues; empty if there is none.
func (l Delay) String() string {
	if l == (Delay{}) {
		return ""
	}
	return fmt.Sprintf("delay %d %d %d %s", l.CopyNumber, CeilMillis(l.Above), CeilMillis(l.Lease), l.Body)
}

// MaxCopyNumber is the largest Delay.CopyNumber.
const MaxCopyNumber = 1<<31 - 1

// Mode says whether other handlers may run in the process during an attempt. It decides whether the death of the
// process is a crash of the message.
type Mode int

// The modes of an attempt.
const (
	ModeShared    Mode = iota // other handlers may run: if the process dies, the message becomes a suspect
	ModeIsolated              // no other handler runs: if the process dies, it died of this message
	ModeUntracked             // nothing is concluded if the process dies
	// isolated, except for abandoned handlers: if the process dies, they may have killed it
	ModeBesideAbandoned
	// of Record.OpenMode: Start with ModeIsolated let it run, and its Begun is still to come
	ModeReserved
)

// isolated reports whether the attempt runs isolated, apart from abandoned handlers.
func (m Mode) isolated() bool { return m == ModeIsolated || m == ModeBesideAbandoned }

func (m Mode) String() string {
	switch m {
	case ModeShared:
		return "shared"
	case ModeIsolated:
		return "isolated"
	case ModeUntracked:
		return "untracked"
	case ModeBesideAbandoned:
		return "beside-abandoned"
	case ModeReserved:
		return "reserved"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}
