package counter

import (
	"fmt"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
)

// MaxReason is the number of bytes of a failure's reason that a record keeps.
const MaxReason = 1024

// maxStoredID is the number of bytes of an id that a record keeps for people; AMQP's own ids have at most 255.
const maxStoredID = 512

// maxLimit is the largest number of attempts that a message gets, whatever a step, an Override or a Grant asks for. Together
// with the bounds of texts and tokens it keeps a record under 24 KiB.
const maxLimit = MaxOverride + 1

// MaxFloor is the largest Attempt.Floor: the microseconds from 1970 to 2112, half of what a script can count exactly.
const MaxFloor = 1 << 52

// Message identifies what is counted: one generation of one message in one queue.
type Message struct {
	VHost string
	Queue string
	ID    string // MessageId, or the result of the consumer's Key func; must not be empty

	// Generation distinguishes one use of the id from the next. It is empty until the message is dead-lettered and comes back.
	Generation string
}

// Attempt identifies one call of a handler for a message.
type Attempt struct {
	Message

	// Token is unique to this attempt: 1 to 64 characters of A-Z a-z 0-9 _ and -.
	Token string

	// Holder is the process of the attempt, shown to operators.
	Holder string

	// First reports that the delivery is not redelivered and that this is its first attempt. A tombstone or a success that is
	// older than Received then belongs to an earlier use of the id, and does not count. See also Record.PossibleDuplicate.
	First bool

	// Received is when this process received the delivery. Only a First attempt needs it. If zero, now.
	Received time.Time

	// Floor is the fence that the delivery carries. The fences of this generation are greater. Only Start uses it. Zero: none.
	Floor int64

	// Later is set by a consumer with a later lane, and for every delivery that came through it. Only Start and Fail use it.
	Later Later

	// MaxAge is the longest time between the first and the last counted attempt, in whole milliseconds, rounded up. If it is longer,
	// Start and Fail exhaust the message, whatever its count, with CauseTooOld. An Override replaces MaxAge, and a Grant lifts it.
	// Zero: no such limit.
	MaxAge time.Duration

	// Crash is how the process that worked on the last attempt at this delivery died, as far as this process saw it. If Start counts
	// a crash, this is its reason. Only Start uses it. Empty: not seen.
	Crash string

	// HoldsQueue is set by a consumer that keeps the order of its whole queue. Where Start and Fail would exhaust the message, it holds
	// the queue instead, which is paused in the same step: VerdictHeld. Grant, Skip and Reset of the message end the pause.
	HoldsQueue bool
}

// crash returns the argument of START; empty: none.
func (a Attempt) crash() string {
	if a.Crash == "" {
		return ""
	}
	return "crash " + printable.Cut(a.Crash, MaxReason)
}

// Later has the arguments of steps for a later lane, in which messages wait for long delays: a copy of the message waits in another
// queue, and the original is acked. See docs/protocol.md. The zero value: the consumer has no later lane.
type Later struct {
	Hop   int64         // the number that a copy carries; 0: the delivery is no copy
	Above time.Duration // a longer wait moves the message; zero: no wait does
	Lease time.Duration // how long an open attempt at a moved message counts as running
	Body  string        // a fingerprint of the message, to tell it from another one with its id: 1 to 32 of 0-9 a-f
}

// String returns the argument of a step; empty if there is none.
func (l Later) String() string {
	if l == (Later{}) {
		return ""
	}
	return fmt.Sprintf("later %d %d %d %s", l.Hop, ceilMillis(l.Above), ceilMillis(l.Lease), l.Body)
}

// MaxHop is the largest Later.Hop.
const MaxHop = 1<<31 - 1

func (l Later) validate() error {
	switch {
	case l.Hop < 0 || l.Hop > MaxHop:
		return setting.New("Later.Hop", l.Hop, fmt.Sprintf("0 to %d", int64(MaxHop)))
	case l != (Later{}) && (l.Body == "" || len(l.Body) > 32 || strings.Trim(l.Body, "0123456789abcdef") != ""):
		return setting.New("Later.Body", l.Body, "1 to 32 of 0-9 a-f")
	}
	return nil
}

// age is how many ms this process has had the delivery of a first attempt; -1 for other attempts.
func (a Attempt) age() int64 {
	switch {
	case !a.First:
		return -1
	case a.Received.IsZero():
		return 0
	}
	return ceilMillis(time.Since(a.Received))
}

func (a Attempt) validate() error {
	switch {
	case a.Queue == "":
		return fmt.Errorf("counter: %w", setting.New("Queue", "", "the name of the message's queue"))
	case a.ID == "":
		return fmt.Errorf("counter: queue %q: %w", a.Queue, setting.New("ID", "", "the id of the message, which cannot be counted without one"))
	case a.Floor < 0 || a.Floor > MaxFloor:
		return fmt.Errorf("counter: queue %q: %w", a.Queue, setting.New("Floor", a.Floor, fmt.Sprintf("0 to %d", int64(MaxFloor))))
	case a.MaxAge < 0:
		return fmt.Errorf("counter: queue %q: %w", a.Queue, setting.New("MaxAge", a.MaxAge, "0s at least"))
	case !validToken(a.Token):
		return fmt.Errorf("counter: queue %q: %w", a.Queue, setting.New("Token", a.Token, "1 to 64 characters of A-Z a-z 0-9 _ -"))
	}
	if err := a.Later.validate(); err != nil {
		return fmt.Errorf("counter: queue %q: %w", a.Queue, err)
	}
	return nil
}

func validToken(t string) bool {
	for i := range len(t) {
		switch b := t[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '_', b == '-':
		default:
			return false
		}
	}
	return t != "" && len(t) <= 64
}

// Mode is what else may run in the process during an attempt. It decides what the death of the process proves.
type Mode int

// The modes of an attempt.
const (
	ModeShared          Mode = iota // other handlers may run: if the process dies, the message becomes a suspect
	ModeIsolated                    // no other handler runs: if the process dies, it died of this message
	ModeUntracked                   // nothing is concluded if the process dies
	ModeBesideAbandoned             // isolated, except for abandoned handlers: if the process dies, they may have killed it
	ModeReserved                    // of Record.OpenMode: Start with ModeIsolated let it run, and its Begun is still to come
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

// Failure is a failed attempt, as Fail counts it.
type Failure struct {
	Limit  int           // counted attempts at which the message is exhausted, unless an operator set another limit; 0: it is exhausted now; at most 1001
	Wait   time.Duration // until the next attempt may begin, by the store's clock
	Cause  Cause         // if empty, CauseFailed
	Reason string        // the same for people; cut to MaxReason bytes
	Ran    time.Duration // how long the handler ran, for people

	// AtMost limits the counted attempts at a message that fails in this way: with so many, this one included, the message is
	// exhausted. It only lowers the Limit or its Override, for this step; a Grant adds to it. Zero: no such limit.
	AtMost int
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maxWaitMillis keeps a wait within a time.Duration.
const maxWaitMillis = int64(1<<63-1) / int64(time.Millisecond)

// ceilMillis rounds up, so that a stored wait is never shorter than the requested one.
func ceilMillis(d time.Duration) int64 {
	ms := int64(max(d, 0) / time.Millisecond)
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return min(ms, maxWaitMillis)
}
