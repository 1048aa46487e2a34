package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

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
		return &recordPrinter{json: ndjson(a.stdout)}
	}
	p := &recordPrinter{table: tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)}
	if isTerminal(a.stdout) {
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
	_, err := fmt.Fprintf(p.table, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", fit(shown(r.ID), p.ids), r.State, r.Failures, r.Crashes,
		since(r.Since, now), due(r), brief(r.LastError, 60))
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
	return rough(now.Sub(t))
}

// due is when the next attempt may begin.
func due(r records.Record) string {
	switch {
	case r.State != records.Retrying:
		return "-"
	case r.Wait > 0:
		return "in " + rough(r.Wait)
	}
	return "now"
}

// rough is a duration in its largest unit.
func rough(d time.Duration) string {
	switch {
	case d < time.Second:
		return "<1s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// printRecord prints everything that is kept of a message.
func (a *app) printRecord(v records.Record, another bool) error {
	if another {
		fmt.Fprintln(a.stdout)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line(w, "id", shown(v.ID))
	line(w, "queue", shown(v.Queue)+" in virtual host "+shown(v.VHost))
	if v.Generation != "" {
		line(w, "generation", shown(v.Generation))
	}
	line(w, "state", string(v.State))
	line(w, "failures", fmt.Sprint(v.Failures))
	line(w, "crashes", fmt.Sprint(v.Crashes))
	if v.Limit > 0 {
		line(w, "limit", plural(v.Limit, "attempt"))
	}
	if v.Granted != nil {
		line(w, "granted", plural(v.Granted.Attempts, "more attempt")+noteSuffix(v.Granted.Note))
	}
	if v.Reset != nil {
		line(w, "reset", strings.TrimSpace(noteSuffix(*v.Reset)))
	}
	line(w, "suspect", fmt.Sprint(v.Suspect))
	line(w, "starts", fmt.Sprint(v.Starts))
	for _, t := range []struct {
		name string
		at   time.Time
	}{
		{"first failed attempt", v.First}, {"last failed attempt", v.Last}, {"due", v.Due}, {"running since", v.Running},
		{"replayed or dropped", v.Removed}, {"expires", v.Expires},
	} {
		if !t.at.IsZero() {
			line(w, t.name, t.at.Format(time.RFC3339))
		}
	}
	line(w, "holder", printable(v.Holder, ""))
	line(w, "last error", printable(v.LastError, ""))
	return w.Flush()
}

func line(w io.Writer, name, value string) {
	if value != "" {
		fmt.Fprintf(w, "%s\t%s\n", name, value)
	}
}

// limitText says what is set for a queue.
func limitText(l records.Limit) string {
	return plural(l.MaxRetries, "retry") + ", set" + noteSuffix(l.Note)
}

// noteSuffix says when, by whom and why, after what was done.
func noteSuffix(n records.Note) string {
	text := ""
	if !n.At.IsZero() {
		text += " " + n.At.Format(time.RFC3339)
	}
	if n.By != "" {
		text += " by " + brief(n.By, 60)
	}
	if n.Reason != "" {
		text += ": " + brief(n.Reason, 200)
	}
	return text
}
