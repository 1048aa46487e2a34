package counter

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// MaxReason is the number of bytes of a failure's reason that a record keeps.
const MaxReason = 1024

// maxStoredID bounds the copy of an id that is kept for people; AMQP's own ids are at most 255 bytes.
const maxStoredID = 512

// maxLimit bounds a limit, so that a script's number can hold it: in effect, no limit.
const maxLimit = 1<<31 - 1

// Message names what is counted: one message in one queue, for one life.
type Message struct {
	VHost string
	Queue string
	ID    string // MessageId, or what the consumer's Key func made of the delivery; must not be empty

	// Life tells one use of the id from the next: empty until the message was dead-lettered and came back.
	Life string
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
		return errors.New("counter: Queue is empty")
	case a.ID == "":
		return fmt.Errorf("counter: queue %q: ID is empty: a message without an id cannot be counted", a.Queue)
	case !validToken(a.Token):
		return fmt.Errorf("counter: queue %q: Token is %q: it must be 1 to 64 characters of A-Z a-z 0-9 _ -", a.Queue, a.Token)
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
	Shared    Mode = iota // other handlers too: if the process dies, the message becomes a suspect
	Exclusive             // nothing else: if the process dies, it died of this message
	Unmarked              // nothing is to be concluded from the process's death
)

func (m Mode) String() string {
	switch m {
	case Shared:
		return "shared"
	case Exclusive:
		return "exclusive"
	case Unmarked:
		return "unmarked"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// Failure is what Fail charges.
type Failure struct {
	Limit  int           // charges at which the message is exhausted, unless an operator set another; zero: now
	Wait   time.Duration // until the next attempt may begin, by the clock of the store
	Reason string        // cut to MaxReason bytes
}

// Verdict is what a step tells the consumer to do.
type Verdict int

// What Start and Fail answer.
const (
	Run       Verdict = iota + 1 // Start: run the handler
	Wait                         // Start: not before Answer.Wait; then Start again with the same token
	Suspect                      // Start: run it with nothing else in the process, after Start Exclusive with the same token
	Requeue                      // Fail: hold the delivery for Answer.Wait, then requeue it
	Exhausted                    // Start, Fail: dead-letter it
	ended                        // End
	granted                      // Grant
	pardoned                     // Pardon
	unknown                      // Grant, Pardon, AddTaken: nothing is kept of the message
	over                         // Grant: it was handled or dead-lettered
	noted                        // AddTaken
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
	"RUN": Run, "WAIT": Wait, "SUSPECT": Suspect, "REQUEUE": Requeue, "EXHAUSTED": Exhausted, "ENDED": ended,
	"GRANTED": granted, "RESET": pardoned, "NONE": unknown, "OVER": over,
	"TAKEN": noted,
}

// Answer is the reply to a step.
type Answer struct {
	Verdict  Verdict
	Failures int           // charged for handlers that failed
	Crashes  int           // charged for processes that died
	Limit    int           // in force: the operator's, else the one that was given
	Fence    int64         // how many attempts Start has let run in this life; it only grows
	Wait     time.Duration // until the next attempt may begin
	Reason   string        // of the last charge
}

// Charges is what is held against the Limit.
func (a Answer) Charges() int { return a.Failures + a.Crashes }

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
