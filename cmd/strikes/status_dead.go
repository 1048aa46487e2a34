package main

import (
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/inspect"
)

// deadLetters is what became of the messages that the consumers were told to dead-letter.
type deadLetters struct {
	Count   int64     `json:"count"`          // by the store
	Since   time.Time `json:"since,omitzero"` // when the first was
	Still   int64     `json:"still_dead"`     // of Count, without Replayed
	Reasons []reason  `json:"reasons,omitempty"`
	Others  int       `json:"others,omitempty"`    // with rarer reasons
	Unknown int64     `json:"no_reason,omitempty"` // of Still: no record that was read tells why

	Queue string `json:"queue"`
	Holds *int   `json:"holds,omitempty"` // ready in Queue, by AMQP
	Out   int    `json:"out,omitempty"`   // with consumers of Queue, by the management API
	Taken *int64 `json:"taken,omitempty"` // left Queue, at least, since the broker began to count, by the management API

	Replayed int64 `json:"replayed_or_dropped,omitempty"` // of Count, by the store; those in Taken as well
	Waiting  int   `json:"waiting,omitempty"`             // in the source queue for the dead-letter route, by the management API

	Route []inspect.Finding `json:"route,omitempty"` // what is wrong with it; looked for if letters are missing or waiting

	// Missing is how many of Count are neither held nor known to have been taken. Unclear is how many may be: the queue is
	// not at rest, and what tells of it is not of one moment.
	Missing int64  `json:"missing"`
	Unclear int64  `json:"unclear,omitempty"`
	Verdict string `json:"verdict"`

	consumers int   // of Queue
	seen      bool  // Waiting is known
	moving    bool  // the management API is behind AMQP
	recent    int64 // of Count, died so late that they may be on their way
	holding   string
	alarm     string
}

// arriving is how long a dead letter may be on its way to where it is counted: a consumer holds it after a restart of the
// broker, and what a quorum queue keeps for its dead-letter route is up to 10 s old (measured: 9 s on 4.3.6, 6 s on 3.10.8).
const arriving = 12 * time.Second

// explain counts what the reasons leave open: their records are gone, or were not read.
func (d *deadLetters) explain() {
	d.Still = max(d.Count-d.Replayed, 0)
	d.Unknown = d.Still - int64(d.Others)
	for _, r := range d.Reasons {
		d.Unknown -= int64(r.Messages)
	}
	d.Unknown = max(d.Unknown, 0)
}

// judge holds what was dead-lettered against what is in the dead-letter queue.
func (d *deadLetters) judge() {
	if d.Holds == nil {
		d.holding = "whether they arrived cannot be told: there is no queue " + term.Shown(d.Queue) + " (--dead-letter-queue names another)"
		d.Verdict = d.holding
		return
	}
	d.holding = fmt.Sprintf("%s holds %d", term.Shown(d.Queue), *d.Holds)
	if d.Out > 0 {
		d.holding += fmt.Sprintf(", %d out with its consumers", d.Out)
	}
	if d.Waiting > 0 {
		d.holding += fmt.Sprintf(", %d waiting in the source queue for the dead-letter route", d.Waiting)
	}
	if d.Replayed > 0 {
		d.holding += fmt.Sprintf(", %d replayed or dropped", d.Replayed)
	}
	gone := d.Replayed
	if d.Taken != nil && *d.Taken > gone {
		gone = *d.Taken
		d.holding += fmt.Sprintf(", %d at least taken out of it", gone)
	}
	open := max(d.Count-int64(*d.Holds)-int64(d.Waiting)-gone, 0)
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
		if !d.seen {
			d.alarm += "; or waiting in the source queue, which only the management API shows"
		}
		d.Verdict += "; missing " + d.alarm
	}
}
