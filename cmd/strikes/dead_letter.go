package main

import (
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/deadletter"
)

// deadRow is a dead letter as list --json prints it.
type deadRow struct {
	ID       string       `json:"id"`
	Queue    string       `json:"queue,omitempty"` // in which it died
	Kind     string       `json:"kind"`
	Reason   string       `json:"reason,omitempty"`
	Broker   string       `json:"broker_reason,omitempty"`
	Died     jsonl.Moment `json:"died,omitzero"`
	Failures int          `json:"failures"`
	Crashes  int          `json:"crashes"`
	First    time.Time    `json:"first,omitzero"` // charge
	Last     time.Time    `json:"last,omitzero"`  // charge
	Counted  bool         `json:"counted"`        // there is a record
	Replays  int64        `json:"replays"`
	Again    bool         `json:"again"` // handed out before
	Size     *int         `json:"size,omitempty"`
	Print    string       `json:"fingerprint,omitempty"` // which show, replay and drop take in place of the id
}

// sizeUnknown is for what only the records tell of.
const sizeUnknown = -1

func rowOf(l *deadletter.Message) deadRow {
	r := deadRow{
		ID: l.ID, Queue: l.Origin.Queue, Kind: string(l.Kind()), Reason: l.Reason(), Broker: l.Origin.Reason,
		Died: jsonl.Moment(l.Origin.Time), Replays: l.Replays, Again: l.Redelivered, Print: l.Fingerprint,
	}
	if l.Size != sizeUnknown {
		r.Size = &l.Size
	}
	if l.Record != nil {
		r.Counted, r.Failures, r.Crashes, r.First, r.Last = true, l.Record.Failures, l.Record.Crashes, l.Record.FirstTime, l.Record.LastTime
	}
	return r
}

// kept is a dead letter as a line of NDJSON that publish takes, if Dead is left out.
type kept struct {
	jsonl.Message
	Dead *deadRow `json:"dead,omitempty"`
}
