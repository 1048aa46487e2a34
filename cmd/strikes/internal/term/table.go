package term

import (
	"io"
	"os"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/strikesmq/strikes/internal/printable"
)

// Table aligns rows. On a terminal it cuts cells that are too long for the line; elsewhere they are whole.
type Table struct {
	w      io.Writer
	width  int // of the terminal; 0: w is no terminal
	titles []string
	rows   [][]string
	begun  bool // the titles are among the rows, or printed
}

// blockRows is how many rows are aligned with each other, so that a long table does not wait in memory.
const blockRows = 500

const gap = 2

// On a terminal the last cell gets the rest of the line, and leastLast columns at least, because it says why. To make
// room for it, other cells are cut to longestCell columns, the length of a UUID. If the terminal is still too narrow,
// it wraps the line.
const (
	longestCell = 36
	leastLast   = 28
)

// NewTable returns a table with a header, which an empty table leaves out.
func NewTable(w io.Writer, titles ...string) *Table {
	return &Table{w: w, width: width(w), titles: titles}
}

// width is the number of columns of a terminal, 0 for another stream.
func width(stream any) int {
	if !IsTerminal(stream) {
		return 0
	}
	width, _, err := term.GetSize(int(stream.(*os.File).Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// Row adds a row of printable cells.
func (t *Table) Row(cells ...string) error {
	if !t.begun {
		t.begun, t.rows = true, append(t.rows, t.titles)
	}
	if t.rows = append(t.rows, cells); len(t.rows) < blockRows {
		return nil
	}
	return t.Flush()
}

// Flush writes the rows that were added.
func (t *Table) Flush() error {
	widths, last := make([]int, len(t.titles)), len(t.titles)-1
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], uniseg.StringWidth(cell))
		}
	}
	if t.width > 0 {
		rest, least := t.width, min(widths[last], leastLast)
		for _, width := range widths[:last] {
			rest -= width + gap
		}
		for i, width := range widths[:last] {
			if cut := min(width-longestCell, least-rest); cut > 0 {
				widths[i] -= cut
				rest += cut
			}
		}
		widths[last] = max(rest, least)
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			cell = fit(cell, widths[i])
			line.WriteString(cell + strings.Repeat(" ", widths[i]-uniseg.StringWidth(cell)+gap))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	t.rows = nil
	_, err := io.WriteString(t.w, b.String())
	return err
}

// Fields are lines of a name and a value. A value of several lines has each on a line of its own.
type Fields struct{ lines [][2]string }

// Add adds a field, nothing for an empty value. The value may hold anything.
func (f *Fields) Add(name, value string) {
	if value != "" && strings.TrimSpace(value) == "" {
		value = printable.NoText
	}
	for i, line := range Lines(value) {
		if i > 0 {
			name = ""
		}
		f.lines = append(f.lines, [2]string{name, line})
	}
}

// Write writes the fields.
func (f *Fields) Write(w io.Writer) error {
	width := 0
	for _, l := range f.lines {
		width = max(width, uniseg.StringWidth(l[0]))
	}
	var b strings.Builder
	for _, l := range f.lines {
		b.WriteString(l[0] + strings.Repeat(" ", width-uniseg.StringWidth(l[0])+gap) + l[1] + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Lines returns the lines of a text, fit for a terminal. A tab is four spaces.
func Lines(text string) []string {
	text = strings.TrimRight(text, "\r\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printable.Text(strings.ReplaceAll(strings.TrimSuffix(line, "\r"), "\t", "    "), "")
	}
	return lines
}

// fit cuts a text to a number of columns; some characters take two.
func fit(text string, width int) string {
	if uniseg.StringWidth(text) <= width {
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
