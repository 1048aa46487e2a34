package term

import "github.com/strikesmq/strikes/internal/printable"

// Printable escapes what a terminal might obey; the characters in keep stay as they are.
func Printable(s, keep string) string {
	return printable.Text(s, keep)
}

// Shown returns a name for a line of text: as it is if it is one plain word, else quoted.
func Shown(s string) string { return printable.Name(s) }

// Brief returns the first line of a text, cut to about so many characters, fit for a terminal.
func Brief(s string, most int) string { return printable.Line(s, most) }
