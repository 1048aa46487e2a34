package term

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/strikesmq/strikes/internal/printable"
)

// Column is a column of a Table. Min and Drop say how it shrinks or goes on a narrow terminal.
type Column struct {
	Title string
	Min   int // columns of the terminal to which it may shrink; 0: it does not
	Drop  int // the column with the lowest number is left out first; 0: never
}

// Table aligns rows. On a terminal it shrinks and leaves out columns until its
// lines fit; elsewhere they have their full width.
type Table struct {
	w       io.Writer
	width   int // 0: full
	columns []Column
	shown   []int // indices of the columns that are not left out; nil: not decided yet
	rows    [][]string
}

// blockRows is how many rows are aligned with each other, so that a long table
// does not wait in memory.
const blockRows = 500

// gap is the space between two columns.
const gap = 2

// NewTable returns a table with a header, which an empty table leaves out.
func NewTable(w io.Writer, columns ...Column) *Table {
	return &Table{w: w, width: Width(w), columns: columns}
}

// Width is the number of columns of a terminal, 0 for another stream.
func Width(stream any) int {
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
	if t.shown == nil && len(t.rows) == 0 {
		header := make([]string, len(t.columns))
		for i, c := range t.columns {
			header[i] = c.Title
		}
		t.rows = append(t.rows, header)
	}
	if t.rows = append(t.rows, cells); len(t.rows) < blockRows {
		return nil
	}
	return t.Flush()
}

// Flush writes the rows that were added.
func (t *Table) Flush() error {
	if len(t.rows) == 0 {
		return nil
	}
	natural := make([]int, len(t.columns))
	for _, row := range t.rows {
		for i, cell := range row {
			natural[i] = max(natural[i], uniseg.StringWidth(cell))
		}
	}
	if t.shown == nil { // the header is of all blocks
		t.shown = choose(t.columns, natural, t.width)
	}
	widths := shrink(t.columns, t.shown, natural, t.width)
	var b strings.Builder
	for _, row := range t.rows {
		b.WriteString(t.line(row, widths))
		b.WriteByte('\n')
	}
	t.rows = nil
	_, err := io.WriteString(t.w, b.String())
	return err
}

func (t *Table) line(row []string, widths []int) string {
	var b strings.Builder
	for n, i := range t.shown {
		last := n == len(t.shown)-1
		cell := row[i]
		if !last || t.width > 0 {
			cell = Fit(cell, widths[i])
		}
		b.WriteString(cell)
		if !last {
			b.WriteString(strings.Repeat(" ", widths[i]-uniseg.StringWidth(cell)+gap))
		}
	}
	return Fit(strings.TrimRight(b.String(), " "), t.width)
}

// choose returns the columns that have room in their least widths.
func choose(columns []Column, natural []int, width int) []int {
	shown := make([]int, len(columns))
	for i := range columns {
		shown[i] = i
	}
	for width > 0 {
		need, drop := -gap, -1
		for n, i := range shown {
			need += least(columns[i], natural[i]) + gap
			if d := columns[i].Drop; d > 0 && (drop < 0 || d < columns[shown[drop]].Drop) {
				drop = n
			}
		}
		if need <= width || drop < 0 {
			break
		}
		shown = slices.Delete(shown, drop, drop+1)
	}
	return shown
}

func least(c Column, natural int) int {
	if c.Min > 0 {
		return min(c.Min, natural)
	}
	return natural
}

// shrink returns the widths of the columns: it takes from the widest that may
// shrink.
func shrink(columns []Column, shown, natural []int, width int) []int {
	widths := slices.Clone(natural)
	total := -gap
	for _, i := range shown {
		total += widths[i] + gap
	}
	for ; width > 0 && total > width; total-- {
		widest := -1
		for _, i := range shown {
			if widths[i] > least(columns[i], natural[i]) && (widest < 0 || widths[i] >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// Fields are lines of a name and a value. A value of several lines has each on
// a line of its own.
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
