// Package render turns what an operator sees into text and JSON: the status
// of a queue, its records and its dead letters. It decides nothing, and lets
// no control character through.
package render

import (
	"encoding/json"
	"io"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
)

// List prints things as they come.
type List[T any] interface {
	Row(thing T) error
	Flush() error
}

// table prints a row a thing.
type table[T any] struct {
	*term.Table
	cells func(T) []string
}

func (t table[T]) Row(thing T) error { return t.Table.Row(t.cells(thing)...) }

// lines prints a JSON object a thing.
type lines[T any] struct {
	out  *json.Encoder
	form func(T) any
}

func (l lines[T]) Row(thing T) error { return l.out.Encode(l.form(thing)) }
func (lines[T]) Flush() error        { return nil }

func newLines[T any](w io.Writer, form func(T) any) List[T] {
	return lines[T]{jsonl.NewEncoder(w), form}
}

// The least widths of columns: an id of a UUID's length is not cut.
const (
	leastID     = 36
	leastReason = 8
)

// longest is how much of a reason is printed where the width has no limit.
const longest = 1024
