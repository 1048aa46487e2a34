package counter

import (
	"fmt"
	"time"

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
	case !validToken(a.Token):
		return fmt.Errorf("counter: queue %q: %w", a.Queue, setting.New("Token", a.Token, "1 to 64 characters of A-Z a-z 0-9 _ -"))
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
