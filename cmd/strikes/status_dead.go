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
	Holds *int   `json:"holds,omitempty"` // ready in Queue, by AMQP
	Out   int    `json:"out,omitempty"`   // with consumers of Queue, by the management API
	Taken *int64 `json:"taken,omitempty"` // left Queue, at least, since the broker began to count, by the management API

	Replayed int64 `json:"replayed_or_dropped,omitempty"` // of Count, by the store; those in Taken as well

	// Missing is how many of Count are neither held nor known to have been taken. Unclear is how many may be: the queue is
	// not at rest, and what tells of it is not of one moment.
	Missing int64  `json:"missing"`
	Unclear int64  `json:"unclear,omitempty"`
	Verdict string `json:"verdict"`

	consumers int   // of Queue
	moving    bool  // the management API is behind AMQP
	recent    int64 // of Count, died so late that they may be on their way
	holding   string
	alarm     string
}

// arriving is how long a dead letter may be on its way to where it is counted: a consumer holds it after a restart of the
// broker, which counts every 5 s.
const arriving = 6 * time.Second

// judge holds what was dead-lettered against what is in the dead-letter queue.
func (d *deadLetters) judge() {
	if d.Holds == nil {
		d.holding = "whether they arrived cannot be told: there is no queue " + shown(d.Queue) + " (--dead-letter-queue names another)"
		d.Verdict = d.holding
		return
	}
	d.holding = fmt.Sprintf("%s holds %d", shown(d.Queue), *d.Holds)
	if d.Out > 0 {
		d.holding += fmt.Sprintf(", %d out with its consumers", d.Out)
	}
	if d.Replayed > 0 {
		d.holding += fmt.Sprintf(", %d replayed or dropped", d.Replayed)
	}
	gone := d.Replayed
	if d.Taken != nil && *d.Taken > gone {
		gone = *d.Taken
		d.holding += fmt.Sprintf(", %d at least taken out of it", gone)
	}
	open := max(d.Count-int64(*d.Holds)-gone, 0)
	switch {
	case d.consumers > 0 || d.moving:
		d.Unclear = open
	default:
		d.Unclear = min(open, d.recent)
		d.Missing = open - d.Unclear
	}
	if d.Unclear > 0 {
		d.holding += fmt.Sprintf(", %d on the way or in use", d.Unclear)
	}
	d.Verdict = d.holding
	if d.Missing > 0 {
		d.alarm = fmt.Sprintf("%d: taken out unseen, or by a command that was killed; expired; or lost", d.Missing)
		d.Verdict += "; missing " + d.alarm
	}
}
