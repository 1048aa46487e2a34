package rules

import (
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// MaxOverride is the largest number of retries that a consumer or an Override can set. A larger one in the store counts
// as this.
const MaxOverride = 1000

// MaxLimit is the largest number of attempts that a message gets, whatever a step, an Override or its own limit
// allows. Together with the bounds of texts and tokens it keeps a record under 24 KiB.
const MaxLimit = MaxOverride + 1

// PauseTTL is how long a pause is kept after the last read by a consumer, and the record of a message that holds its
// queue. On a Store other than Redis, a pause may be kept for up to an hour less.
const PauseTTL = 30 * 24 * time.Hour

// Queue is the state of a queue in the store, which the steps of its messages read and change.
type Queue struct {
	TTL        time.Duration // how long a record is kept after its last write
	Override   *Override     // nil: the limits of the consumers are in force
	Tombstones Tombstones
	Breaker    Breaker
	Judged     bool // the step asked the breaker
}

// Override is a limit that an operator set for a queue. It replaces the one in the consumers' configuration.
type Override struct {
	// MaxRetries is the number of retries after the first failure: 0 to MaxOverride, where 0 is none. nil: that of the
	// consumers is in force, and SetLimit leaves the field as it is.
	MaxRetries *int

	// MaxAge replaces Attempt.MaxAge, in whole milliseconds; 0 lifts it. nil: that of the consumers is in force, and
	// SetLimit leaves the field as it is.
	MaxAge *time.Duration

	Note
}

// Limit is the number of counted attempts at which the override dead-letters a message; 0 if it leaves the limit
// unchanged.
func (o *Override) Limit() int {
	if o == nil || o.MaxRetries == nil {
		return 0
	}
	return max(*o.MaxRetries, 0) + 1
}

// Note says who changed something, when and why. People write its strings: like those of a Record, do not print them
// on a terminal unescaped.
type Note struct {
	By  string    `json:"by,omitempty"` // cut to 512 bytes; may be empty
	At  time.Time `json:"at,omitzero"`  // by the store's clock; ignored where a Note is given
	Why string    `json:"reason"`       // cut to MaxReason bytes; must not be empty
}

// Text says when, by whom and why, after the change: " 2026-11-21T12:00:00Z by jo: why". It is escaped.
func (n Note) Text() (text string) {
	if !n.At.IsZero() {
		text += " " + n.At.Format(time.RFC3339)
	}
	return text + n.ByAndWhy()
}

// ByAndWhy is Text without the time: " by jo: why".
func (n Note) ByAndWhy() (text string) {
	if n.By != "" {
		text += " by " + printable.Line(n.By, 60)
	}
	if n.Why != "" {
		text += ": " + printable.Line(n.Why, 200)
	}
	return text
}

// Tombstones counts the messages of a queue that consumers were told to dead-letter, each once: a repetition after a
// lost reject is not counted within ten minutes. Messages without an id are not counted, nor those that the broker
// dead-letters by itself (an expired TTL, its own delivery limit, a full queue). The store forgets the counts when no
// tombstone was written or removed for twice the TTL of a record.
type Tombstones struct {
	Count   int64     // without those that Reset cleared
	Removed int64     // of Count: NoteRemoved noted that the dead letter left its queue
	Expired int64     // of Count, not of Removed: the store has no tombstone any more, or only for an eighth of its TTL
	Since   time.Time // of the first; zero if there is none
}
