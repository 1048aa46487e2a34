package counter

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// Waiting are messages that a process holds unacked because its attempts at them are not counted. They may have no
// records.
type Waiting struct {
	Messages int
	For      time.Duration // how long the attempts at the message that is held for longest have not been counted
	Why      string        // the newest error; it may hold control characters
}

// waitingTTL is how long the store keeps a report of held messages. A process that holds some repeats it once a second.
const waitingTTL = 3 * time.Second

// text is the form of h in the store: "<messages> <ms> <why>"; empty if nothing is held.
func (h Waiting) text() string {
	if h.Messages <= 0 {
		return ""
	}
	return fmt.Sprintf("%d %d %s", h.Messages, max(h.For, 0).Milliseconds(), printable.Cut(h.Why, maxWaitingReason))
}

// maxWaitingReason is how much is kept of the reason, in bytes.
const maxWaitingReason = 512

// parseWaiting returns the zero value for a text that it cannot read.
func parseWaiting(text string) Waiting {
	words := strings.SplitN(text, " ", 3)
	if len(words) < 3 {
		return Waiting{}
	}
	n, err := strconv.Atoi(words[0])
	ms, err2 := strconv.ParseInt(words[1], 10, 64)
	if err != nil || err2 != nil || n <= 0 || ms < 0 {
		return Waiting{}
	}
	return Waiting{Messages: n, For: time.Duration(ms) * time.Millisecond, Why: words[2]}
}
