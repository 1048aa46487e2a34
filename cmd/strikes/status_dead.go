package main

import (
	"fmt"
	"time"
)

// deadLetters is what became of the messages that the consumers were told to dead-letter.
type deadLetters struct {
	Count   int64     `json:"count"`          // by the store
	Since   time.Time `json:"since,omitzero"` // when the first was
	Reasons []reason  `json:"reasons,omitempty"`
	Others  int       `json:"others,omitempty"` // with rarer reasons

	Queue string `json:"queue"`
	Holds *int   `json:"holds,omitempty"` // ready in Queue, by AMQP, and out with its consumers, by the management API
	Taken *int64 `json:"taken,omitempty"` // left Queue, at least, since the broker began to count

	Replayed int64 `json:"replayed_or_dropped,omitempty"` // of Count, by the store; those in Taken as well

	// Missing is how many of Count are neither held nor known to have been taken.
	Missing int64  `json:"missing"`
	Verdict string `json:"verdict"`
}

// judge holds what was dead-lettered against what is in the dead-letter queue.
func (d *deadLetters) judge() {
	if d.Holds == nil {
		d.Verdict = "whether they arrived cannot be told: there is no queue " + shown(d.Queue) + " (--dead-letter-queue names another)"
		return
	}
	text := fmt.Sprintf("%s holds %d", shown(d.Queue), *d.Holds)
	if d.Replayed > 0 {
		text += fmt.Sprintf(", %d were replayed or dropped", d.Replayed)
	}
	gone := d.Replayed
	if d.Taken != nil && *d.Taken > gone {
		gone = *d.Taken
		text += fmt.Sprintf(", %d at least were taken out of it", gone)
	}
	if d.Missing = max(d.Count-int64(*d.Holds)-gone, 0); d.Missing > 0 {
		text += fmt.Sprintf(": %d are unaccounted for: taken out unseen, expired, or lost", d.Missing)
	}
	d.Verdict = text
}
