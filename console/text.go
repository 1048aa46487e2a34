package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// Every string of a message, a handler or a person is shown by one of these. html/template escapes the characters that
// HTML might obey. These escape those that a screen might obey: control characters, marks that turn the direction of
// text, bytes that are no UTF-8.

// shown is a name, an id or a header on one line.
func shown(s string) string {
	if s == "" {
		return "(empty)"
	}
	return printable.Text(cut(s, longestShown), "")
}

// longestShown bounds a text on a page, in bytes. A header may have a megabyte.
const longestShown = 2000

// brief is the first line of a text.
func brief(s string) string { return printable.Line(s, longestBrief) }

// why is the first line of an error.
func why(s string) string { return printable.Why(s, longestBrief) }

// longestBrief bounds it, in characters.
const longestBrief = 240

// lines are the lines of a text, such as a stack.
func lines(s string) []string {
	all := strings.Split(strings.TrimRight(cut(s, longestText), "\n"), "\n")
	for i, line := range all {
		all[i] = printable.Text(strings.TrimSuffix(line, "\r"), "\t…")
	}
	return all
}

// longestText bounds a text of several lines, in bytes.
const longestText = 64 << 10

// cut shortens a text to about so many bytes, between characters.
func cut(s string, most int) string {
	if short := printable.Cut(s, most); short != s {
		return short + "…"
	}
	return s
}

func plural[N int | int64](n N, thing string) string {
	if n == 1 {
		return printable.Plural(1, thing)
	}
	return digits(int64(n)) + " " + printable.PluralOf(thing)
}

// digits writes a number with a thin space between thousands.
func digits(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

func perSecond(r float64) string {
	if r >= 100 {
		return digits(int64(r)) + "/s"
	}
	return fmt.Sprintf("%.1f/s", r)
}

// instant is a time in UTC; a narrow page may break the line at the space.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
