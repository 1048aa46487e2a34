package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/records"
)

// recordPrinter prints records as a table or as NDJSON.
type recordPrinter struct {
	json  *json.Encoder
	table *tabwriter.Writer
	begun bool
	ids   int // columns that an id may take; 0: as many as it has
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

func (p *recordPrinter) row(r records.Record, now time.Time) error {
	if p.json != nil {
		return p.json.Encode(r)
	}
	if !p.begun {
		fmt.Fprintln(p.table, "ID\tSTATE\tFAILURES\tCRASHES\tAGE\tDUE\tLAST ERROR")
		p.begun = true
	}
	_, err := fmt.Fprintf(p.table, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", term.Fit(term.Shown(r.ID), p.ids), r.State, r.Failures, r.Crashes,
		since(r.Since, now), due(r), term.Brief(r.LastError, 60))
	return err
}

func (p *recordPrinter) flush() error {
	if p.table == nil {
		return nil
	}
	return p.table.Flush()
}

// since is how long ago something was, if it was.
func since(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return term.Rough(now.Sub(t))
}

// due is when the next attempt may begin.
func due(r records.Record) string {
	switch {
	case r.State != records.Retrying:
		return "-"
	case r.Wait > 0:
		return "in " + term.Rough(r.Wait)
	}
	return "now"
}

// printRecord prints everything that is kept of a message.
func (a *app) printRecord(v records.Record, another bool) error {
	if another {
		fmt.Fprintln(a.Out)
	}
	w := term.NewTable(a.Out)
	term.Field(w, "id", term.Shown(v.ID))
	term.Field(w, "queue", term.Shown(v.Queue)+" in virtual host "+term.Shown(v.VHost))
	if v.Generation != "" {
		term.Field(w, "generation", term.Shown(v.Generation))
	}
	term.Field(w, "state", string(v.State))
	term.Field(w, "failures", fmt.Sprint(v.Failures))
	term.Field(w, "crashes", fmt.Sprint(v.Crashes))
	if v.Limit > 0 {
		term.Field(w, "limit", term.Plural(v.Limit, "attempt"))
	}
	if v.Granted != nil {
		term.Field(w, "granted", term.Plural(v.Granted.Attempts, "more attempt")+noteSuffix(v.Granted.Note))
	}
	if v.Reset != nil {
		term.Field(w, "reset", strings.TrimSpace(noteSuffix(*v.Reset)))
	}
	term.Field(w, "suspect", fmt.Sprint(v.Suspect))
	term.Field(w, "starts", fmt.Sprint(v.Starts))
	for _, t := range []struct {
		name string
		at   time.Time
	}{
		{"first failed attempt", v.First}, {"last failed attempt", v.Last}, {"due", v.Due}, {"running since", v.Running},
		{"replayed or dropped", v.Removed}, {"expires", v.Expires},
	} {
		if !t.at.IsZero() {
			term.Field(w, t.name, t.at.Format(time.RFC3339))
		}
	}
	term.Field(w, "holder", term.Printable(v.Holder, ""))
	term.Field(w, "last error", term.Printable(v.LastError, ""))
	return w.Flush()
}

// limitText says what is set for a queue.
func limitText(l records.Limit) string {
	return term.Plural(l.MaxRetries, "retry") + ", set" + noteSuffix(l.Note)
}

// noteSuffix says when, by whom and why, after what was done.
func noteSuffix(n records.Note) string {
	text := ""
	if !n.At.IsZero() {
		text += " " + n.At.Format(time.RFC3339)
	}
	if n.By != "" {
		text += " by " + term.Brief(n.By, 60)
	}
	if n.Reason != "" {
		text += ": " + term.Brief(n.Reason, 200)
	}
	return text
}
