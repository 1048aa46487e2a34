package counter

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/strikesmq/strikes/internal/setting"
)

// MaxReason is the number of bytes of a failure's reason that a record keeps.
const MaxReason = 1024

// maxStoredID bounds the copy of an id that is kept for people; AMQP's own ids are at most 255 bytes.
const maxStoredID = 512

// maxLimit is the largest number of attempts that a message gets, whatever a step, an Override or a Grant asks for. With the
// bounds of texts and tokens it keeps a record under 20 KiB.
const maxLimit = MaxOverride + 1

// MaxFloor is the largest Attempt.Floor: the microseconds from 1970 to 2112, half of what a script can count exactly.
const MaxFloor = 1 << 52

// Message names what is counted: one message in one queue, for one life.
type Message struct {
	VHost string
	Queue string
	ID    string // MessageId, or what the consumer's Key func made of the delivery; must not be empty

	// Life tells one use of the id from the next: empty until the message was dead-lettered and came back.
	Generation string
}

// Attempt is one run of a handler.
type Attempt struct {
	Message

	// Token is unique to this run: 1 to 64 characters of A-Z a-z 0-9 _ and -.
	Token string

	// Holder is the process that runs it, shown to operators.
	Holder string

	// First says that the delivery was not redelivered and that this is its first run. What is kept of an id that was
	// dead-lettered or handled before the delivery was Received is then of an earlier use of it, and does not count.
	First bool

	// Received is when this process got the delivery; needed only with First. If zero, now.
	Received time.Time

	// Floor is the fence that the delivery carries. With it the fences of this generation are greater than those of earlier
	// ones. Zero: none. Only Start uses it.
	Floor int64
}

// age is for how many ms this process has had the delivery of a first run; -1 for other runs.
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

// Mode says what else may run in the process while an attempt runs, and so what its death would prove.
type Mode int

// What else may run.
const (
	ModeShared          Mode = iota // other handlers too: if the process dies, the message becomes a suspect
	ModeIsolated                    // nothing else: if the process dies, it died of this message
	ModeUntracked                   // nothing is to be concluded from the process's death
	ModeBesideAbandoned             // nothing but handlers that were abandoned: if the process dies, they may have killed it
)

// isolated reports whether the attempt runs isolated, but for abandoned handlers.
func (m Mode) isolated() bool { return m == ModeIsolated || m == ModeBesideAbandoned }

func (m Mode) String() string {
	switch m {
	case ModeShared:
		return "shared"
	case ModeIsolated:
		return "exclusive"
	case ModeUntracked:
		return "unmarked"
	case ModeBesideAbandoned:
		return "beside"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// Failure is what Fail charges.
type Failure struct {
	Limit  int           // charges at which the message is exhausted, unless an operator set another; zero: now; at most 1001
	Wait   time.Duration // until the next attempt may begin, by the clock of the store
	Cause  Cause         // if empty, CauseFailed
	Reason string        // the same for people; cut to MaxReason bytes
}

// Verdict is what a step tells the consumer to do.
type Verdict int

// What Start and Fail answer.
const (
	VerdictRun       Verdict = iota + 1 // Start: run the handler
	VerdictWait                         // Start: not before Answer.Wait; then Start again with the same token
	VerdictSuspect                      // Start: run it with nothing else in the process, after Start Exclusive with the same token
	VerdictRequeue                      // Fail: hold the delivery for Answer.Wait, then requeue it
	VerdictExhausted                    // Start, Fail: dead-letter it
	verdictEnded                        // End
	verdictGranted                      // Grant
	verdictReset                        // Pardon
	verdictNone                         // Grant, Pardon, AddTaken: nothing is kept of the message
	verdictOver                         // Grant: it was handled or dead-lettered
	verdictRemoved                      // AddTaken
)

func (v Verdict) String() string {
	for name, is := range verdicts {
		if is == v {
			return name
		}
	}
	return fmt.Sprintf("Verdict(%d)", int(v))
}

var verdicts = map[string]Verdict{
	"RUN": VerdictRun, "WAIT": VerdictWait, "SUSPECT": VerdictSuspect, "REQUEUE": VerdictRequeue, "EXHAUSTED": VerdictExhausted, "ENDED": verdictEnded,
	"GRANTED": verdictGranted, "RESET": verdictReset, "NONE": verdictNone, "OVER": verdictOver,
	"TAKEN": verdictRemoved,
}

// Answer is the reply to a step.
type Reply struct {
	Verdict  Verdict
	Failures int           // charged for handlers that failed
	Crashes  int           // charged for processes that died
	Limit    int           // in force: the operator's, else the one that was given
	Fence    int64         // of the last attempt that Start let run: greater than all before it; 0 if there is none
	Wait     time.Duration // until the next attempt may begin
	Cause    Cause         // VerdictExhausted: of the last attempt that was counted; else empty
	Reason   string        // VerdictExhausted: of the same; else empty
}

// Charges is what is held against the Limit.
func (a Reply) Counted() int { return a.Failures + a.Crashes }

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ceilMillis rounds up, so that a wait that is stored is never shorter than the one that was asked for.
func ceilMillis(d time.Duration) int64 {
	ms := int64(max(d, 0) / time.Millisecond)
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return min(ms, maxWaitMillis)
}
