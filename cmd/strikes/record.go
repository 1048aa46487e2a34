package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

// record is a counter.Record as --json prints it.
type record struct {
	VHost     string    `json:"vhost"`
	Queue     string    `json:"queue"`
	ID        string    `json:"id"`
	Life      string    `json:"life,omitempty"`
	State     string    `json:"state"`
	Failures  int       `json:"failures"`
	Crashes   int       `json:"crashes"`
	LastError string    `json:"last_error,omitempty"`
	First     time.Time `json:"first,omitzero"`   // charge
	Last      time.Time `json:"last,omitzero"`    // charge
	Due       time.Time `json:"due,omitzero"`     // when the next attempt may begin
	Running   time.Time `json:"running,omitzero"` // since when an attempt does
	Suspect   bool      `json:"suspect,omitempty"`
	Starts    int64     `json:"starts"`
	Holder    string    `json:"holder,omitempty"`
	Limit     int       `json:"limit,omitempty"` // charges at which the message is dead-lettered, if that is known
	Granted   *granted  `json:"granted,omitempty"`
	Reset     *note     `json:"reset,omitempty"`
	Left      time.Time `json:"left,omitzero"` // when its dead letter was replayed or dropped
	Expires   time.Time `json:"expires,omitzero"`
}

// granted is a counter.Grant as --json prints it.
type granted struct {
	Tries int `json:"tries"`
	note
}

// What becomes of a message, in one word.
const (
	stateRunning  = "running"
	stateRetrying = "retrying"
	stateDead     = "dead-lettered"
	stateDone     = "done"
)

func stateOf(r counter.Record) string {
	switch {
	case r.State == counter.StateDeadLetter:
		return stateDead
	case r.State == counter.StateDone:
		return stateDone
	case r.OpenToken != "":
		return stateRunning
	}
	return stateRetrying
}

func recordOf(r counter.Record, now time.Time) record {
	out := record{
		VHost: r.VHost, Queue: r.Queue, ID: r.ID, Life: r.Generation, State: stateOf(r), Failures: r.Failures, Crashes: r.Crashes,
		LastError: r.Reason, First: r.FirstTime, Last: r.LastTime, Suspect: r.Suspect, Starts: r.Starts, Holder: r.Holder, Left: r.Removed,
	}
	out.Limit = r.InForce(nil)
	if g := r.Granted; g.Attempts > 0 {
		out.Granted = &granted{g.Attempts, noteJSON(g.Note)}
	}
	if n := r.Reset; n != (counter.Note{}) {
		reset := noteJSON(n)
		out.Reset = &reset
	}
	if out.State == stateRunning {
		out.Running = r.OpenSince
	}
	if out.State == stateRetrying {
		out.Due = r.Due
	}
	if r.TTL > 0 {
		out.Expires = now.Add(r.TTL).UTC().Truncate(time.Second)
	}
	return out
}

// recordPrinter prints records as a table or as NDJSON.
type recordPrinter struct {
	json  *json.Encoder
	table *tabwriter.Writer
	begun bool
	ids   int               // columns that an id may take; 0: as many as it has
	set   *counter.Override // of the queue
}

// idColumns are those of a UUID, and some more. An id may have 255.
const idColumns = 40

func (a *app) recordPrinter(asJSON bool) *recordPrinter {
	if asJSON {
		return &recordPrinter{json: jsonl.NewEncoder(a.Out)}
	}
	p := &recordPrinter{table: term.NewTable(a.Out)}
	if term.IsTerminal(a.Out) {
		p.ids = idColumns
	}
	return p
}

func (p *recordPrinter) row(r counter.Record, now time.Time) error {
	if p.json != nil {
		v := recordOf(r, now)
		v.Limit = r.InForce(p.set)
		return p.json.Encode(v)
	}
	if !p.begun {
		fmt.Fprintln(p.table, "ID\tSTATE\tFAILURES\tCRASHES\tAGE\tDUE\tLAST ERROR")
		p.begun = true
	}
	_, err := fmt.Fprintf(p.table, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", term.Fit(term.Shown(r.ID), p.ids), stateOf(r), r.Failures, r.Crashes,
		age(r, now), due(r, now), term.Brief(r.Reason, 60))
	return err
}

func (p *recordPrinter) flush() error {
	if p.table == nil {
		return nil
	}
	return p.table.Flush()
}

// age is how long ago a message was charged first, or began to run if it never was.
func age(r counter.Record, now time.Time) string {
	since := r.FirstTime
	if since.IsZero() {
		since = r.OpenSince
	}
	if since.IsZero() {
		return "-"
	}
	return term.Rough(now.Sub(since))
}

// due is when the next attempt may begin.
func due(r counter.Record, now time.Time) string {
	switch {
	case stateOf(r) != stateRetrying:
		return "-"
	case r.Left(now) > 0:
		return "in " + term.Rough(r.Left(now))
	}
	return "now"
}

// printRecord prints everything that is kept of a message.
func (a *app) printRecord(v record, another bool) error {
	if another {
		fmt.Fprintln(a.Out)
	}
	w := term.NewTable(a.Out)
	term.Field(w, "id", term.Shown(v.ID))
	term.Field(w, "queue", term.Shown(v.Queue)+" in virtual host "+term.Shown(v.VHost))
	if v.Life != "" {
		term.Field(w, "life", term.Shown(v.Life))
	}
	term.Field(w, "state", v.State)
	term.Field(w, "failures", fmt.Sprint(v.Failures))
	term.Field(w, "crashes", fmt.Sprint(v.Crashes))
	if v.Limit > 0 {
		term.Field(w, "limit", fmt.Sprint(v.Limit))
	}
	if v.Granted != nil {
		term.Field(w, "granted", term.Plural(v.Granted.Tries, "more try")+v.Granted.String())
	}
	if v.Reset != nil {
		term.Field(w, "reset", strings.TrimSpace(v.Reset.String()))
	}
	term.Field(w, "suspect", fmt.Sprint(v.Suspect))
	term.Field(w, "starts", fmt.Sprint(v.Starts))
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"first charge", v.First}, {"last charge", v.Last}, {"due", v.Due}, {"running since", v.Running}, {"replayed or dropped", v.Left}, {"expires", v.Expires}} {
		if !t.at.IsZero() {
			term.Field(w, t.name, t.at.Format(time.RFC3339))
		}
	}
	term.Field(w, "holder", term.Printable(v.Holder, ""))
	term.Field(w, "last error", term.Printable(v.LastError, ""))
	return w.Flush()
}
