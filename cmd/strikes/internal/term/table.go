package term

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// NewTable returns a writer that aligns the columns of lines, which tabs separate. Flush ends it.
func NewTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// Field writes a line of a name and a value to a table, nothing for an empty value.
func Field(w io.Writer, name, value string) {
	if value != "" {
		fmt.Fprintf(w, "%s\t%s\n", name, value)
	}
}
