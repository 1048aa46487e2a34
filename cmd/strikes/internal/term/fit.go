package term

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
)

// Row is a line of text on a terminal, and its kind.
type Row struct {
	Text string
	Kind Kind
}

// Kind is the importance of a Row.
type Kind int

// The kinds of rows.
const (
	Plain Kind = iota
	Title
	Quiet
	Alarm
)

// sgr are the escape sequences that show a kind of row.
var sgr = map[Kind]string{Title: "\x1b[1m", Quiet: "\x1b[2m", Alarm: "\x1b[31m"}

// print returns the row cut to a width (0: not cut), with or without color.
func (r Row) print(width int, color bool) string {
	text := Fit(r.Text, width)
	if on := sgr[r.Kind]; color && on != "" {
		return on + text + "\x1b[0m"
	}
	return text
}

// Fit cuts a text to a number of columns; some characters take two. Zero does not cut.
func Fit(text string, width int) string {
	if width <= 0 || uniseg.StringWidth(text) <= width {
		return text
	}
	var b strings.Builder
	left, state, rest := width-1, -1, text
	for rest != "" {
		var cluster string
		var columns int
		cluster, rest, columns, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if left -= columns; left < 0 {
			break
		}
		b.WriteString(cluster)
	}
	return b.String() + "…"
}

// Fitted prints rows for a width, and leaves out what does not fit into a height. Zero is no bound.
func Fitted(rows []Row, width, height int, color bool) []string {
	if height > 0 && len(rows) > height {
		left := len(rows) - height + 1
		rows = append(slices.Clone(rows[:height-1]), Row{fmt.Sprintf("… %d lines more", left), Quiet})
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.print(width, color)
	}
	return out
}
