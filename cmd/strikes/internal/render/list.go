// Package render turns the data for an operator into text and JSON: the status of a queue, its records and its dead
// letters. It decides nothing, and lets no control character through.
package render

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// List prints things as they come.
type List[T any] interface {
	Row(thing T) error
	Flush() error
}

// All prints a whole list.
func All[T any](l List[T], things []T) error {
	for _, thing := range things {
		if err := l.Row(thing); err != nil {
			return err
		}
	}
	return l.Flush()
}

// newList returns a list as a table, or as JSON lines of a form.
func newList[T any](w io.Writer, asJSON bool, form func(T) any, cells func(T) []string,
	titles ...string) List[T] {
	if asJSON {
		return lines[T]{jsonl.NewEncoder(w), form}
	}
	return table[T]{term.NewTable(w, titles...), cells}
}

type table[T any] struct {
	*term.Table
	cells func(T) []string
}

func (t table[T]) Row(thing T) error { return t.Table.Row(t.cells(thing)...) }

type lines[T any] struct {
	out  *json.Encoder
	form func(T) any
}

func (l lines[T]) Row(thing T) error { return l.out.Encode(l.form(thing)) }
func (lines[T]) Flush() error        { return nil }

// longest is the most bytes of a reason in a cell. A terminal shows fewer.
const longest = 1024

// Audit returns a list of changes as a table, or as JSON lines.
func Audit(w io.Writer, asJSON bool) List[counter.AuditEntry] {
	return newList(w, asJSON, func(e counter.AuditEntry) any { return e }, func(e counter.AuditEntry) []string {
		count := "-"
		if e.Count > 0 {
			count = fmt.Sprint(e.Count)
		}
		return []string{
			e.Time.Format(time.RFC3339), dash(e.Actor), printable.Line(e.Verb, longest), dash(e.Subject), count,
			printable.Line(e.Result, longest), dash(e.Reason),
		}
	}, "TIME", "WHO", "WHAT", "OF", "COUNT", "RESULT", "WHY")
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return printable.Line(s, longest)
}

// Lanes returns a list of blocked lanes as a table, or as JSON lines.
func Lanes(w io.Writer, asJSON bool) List[ops.BlockedLane] {
	return newList(w, asJSON, func(l ops.BlockedLane) any {
		row := map[string]any{"queue": l.Queue, "lane": l.Lane, "by": l.By, "since": l.Since, "messages": l.Messages}
		if !utf8.ValidString(l.Lane) {
			row["lane_base64"] = []byte(l.Lane)
		}
		return row
	}, func(l ops.BlockedLane) []string {
		by := "(in the queue again)" // it was replayed, and is not handled yet
		if l.By != "" {
			by = printable.Line(l.By, longest)
		}
		return []string{printable.Name(l.Lane), by, l.Since.Format(time.RFC3339), fmt.Sprint(l.Messages)}
	}, "LANE", "BLOCKED BY", "SINCE", "MESSAGES")
}
