package term

import (
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

// Joined returns rows as lines, with or without color.
func Joined(rows []Row, color bool) string {
	var b strings.Builder
	for _, r := range rows {
		if on := sgr[r.Kind]; color && on != "" {
			b.WriteString(on + r.Text + "\x1b[0m\n")
		} else {
			b.WriteString(r.Text + "\n")
		}
	}
	return b.String()
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
