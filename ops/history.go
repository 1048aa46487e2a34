package ops

import (
	"time"

	"github.com/strikesmq/strikes/counter"
)

// Attempt is a counted attempt of a message.
type Attempt struct {
	Number   int           `json:"number"`
	At       time.Time     `json:"at"`
	RanMS    int64         `json:"ran_ms,omitempty"` // not known of a crash
	Cause    counter.Cause `json:"cause"`
	Consumer string        `json:"consumer,omitempty"`
	Reason   string        `json:"reason,omitempty"`
}

// History returns the last counted attempts that a record remembers, the oldest first.
func History(r counter.Record) []Attempt {
	var out []Attempt
	for _, n := range r.History {
		out = append(out, Attempt{n.Number, n.At, n.Ran.Milliseconds(), n.Cause, n.Consumer, n.Reason})
	}
	return out
}
