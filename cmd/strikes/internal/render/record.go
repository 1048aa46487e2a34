package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// Records returns a list of records as a table, or as JSON lines.
func Records(w io.Writer, asJSON bool) List[ops.Record] {
	return newList(w, asJSON, func(r ops.Record) any { return r }, func(r ops.Record) []string {
		age := "-" // since the first attempt failed, or the last one began if none has
		if !r.Since.IsZero() {
			age = printable.Rough(r.Age)
		}
		return []string{
			printable.Name(r.ID), string(r.State), fmt.Sprint(r.Failures), fmt.Sprint(r.Crashes), age, due(r),
			printable.Line(r.LastError, longest),
		}
	}, "ID", "STATE", "FAILURES", "CRASHES", "AGE", "DUE", "LAST ERROR")
}

func due(r ops.Record) string {
	switch {
	case r.State != ops.Retrying:
		return "-"
	case r.Wait > 0:
		return "in " + printable.Rough(r.Wait)
	}
	return "now"
}

// Record prints everything that is kept of one generation of a message.
func Record(w io.Writer, v ops.Record) error {
	var f term.Fields
	f.Add("id", printable.Name(v.ID))
	f.Add("queue", printable.Name(v.Queue)+" in virtual host "+printable.Name(v.VHost))
	if v.Generation != "" {
		f.Add("generation", printable.Name(v.Generation))
	}
	f.Add("state", string(v.State))
	f.Add("failures", fmt.Sprint(v.Failures))
	f.Add("crashes", fmt.Sprint(v.Crashes))
	if v.Limit > 0 {
		limit := printable.Plural(v.Limit, "attempt")
		if v.OwnLimit > 0 {
			limit += ", of its own; strikes audit says who set it"
		}
		f.Add("limit", limit)
	}
	if v.Reset != nil {
		f.Add("reset", strings.TrimSpace(v.Reset.Text()))
	}
	if v.Skip != nil {
		f.Add("skipped", strings.TrimSpace(v.Skip.Text()))
	}
	f.Add("suspect", fmt.Sprint(v.Suspect))
	f.Add("starts", fmt.Sprint(v.Starts))
	for _, t := range []struct {
		name string
		at   time.Time
	}{
		{"first failed attempt", v.First}, {"last failed attempt", v.Last}, {"due", v.Due}, {"running since", v.Running},
		{"replayed or dropped", v.Removed}, {"expires", v.Expires},
	} {
		if !t.at.IsZero() {
			f.Add(t.name, t.at.Format(time.RFC3339))
		}
	}
	f.Add("consumer", v.Consumer)
	f.Add("cause", string(v.Cause))
	f.Add("last error", v.LastError)
	if v.Duplicate {
		f.Add("possible duplicate", duplicateText)
	}
	if err := f.Write(w); err != nil {
		return err
	}
	return history(w, v.History)
}

// Limit describes the limit that is set for a queue or a message.
func Limit(l ops.Limit) string {
	if l.ID != "" {
		return l.Words()
	}
	return l.Words() + ", set" + l.Note.Text()
}
