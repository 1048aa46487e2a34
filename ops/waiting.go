package ops

import (
	"cmp"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// WaitingMessages are messages that a process, or all of a queue, hold because the attempts at them are not counted.
// They have no records.
type WaitingMessages struct {
	Messages int       `json:"messages"`
	Since    time.Time `json:"since"`              // of the one that waits for longest
	Why      string    `json:"why"`                // of the newest attempt
	Consumer string    `json:"consumer,omitempty"` // empty: all
}

// Holding is an exhausted message that holds its queue, which is paused for it.
type Holding struct {
	ID    string        `json:"id"`
	Cause counter.Cause `json:"cause"`
	Since time.Time     `json:"since"`
	// a decision about the message ends the pause; false: an operator paused the queue too
	Only bool `json:"only"`
}

// waitingBy returns what processes hold, the longest first.
func waitingBy(all []counter.ConsumerState) (held []WaitingMessages) {
	for _, s := range all {
		if s.Waiting.Messages > 0 {
			held = append(held, WaitingMessages{Messages: s.Waiting.Messages, Since: s.Seen.Add(-s.Waiting.For),
				Why:      s.Waiting.Why,
				Consumer: s.Consumer})
		}
	}
	slices.SortFunc(held, func(a, b WaitingMessages) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Consumer, b.Consumer))
	})
	return held
}
