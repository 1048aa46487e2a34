package status

import (
	"cmp"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// Held are messages that a process, or all of a queue, hold because the attempts at them are not counted. They have no
// records.
type Held struct {
	Messages int       `json:"messages"`
	Since    time.Time `json:"since"`            // of the one that waits for longest
	Why      string    `json:"why"`              // of the newest attempt
	Holder   string    `json:"holder,omitempty"` // empty: all
}

// Holding is an exhausted message that holds its queue, which is paused for it.
type Holding struct {
	ID    string        `json:"id"`
	Cause counter.Cause `json:"cause"`
	Since time.Time     `json:"since"`
	// a decision about the message ends the pause; false: an operator paused the queue too
	Only bool `json:"only"`
}

// heldBy returns what processes hold, the longest first.
func heldBy(all []counter.ConsumerState) (held []Held) {
	for _, s := range all {
		if s.Held.Messages > 0 {
			held = append(held, Held{Messages: s.Held.Messages, Since: s.Seen.Add(-s.Held.For), Why: s.Held.Why,
				Holder: s.Holder})
		}
	}
	slices.SortFunc(held, func(a, b Held) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Holder, b.Holder)) })
	return held
}
