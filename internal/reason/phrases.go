package reason

import "regexp"

// rule replaces what matches of, in a text that has the traits that this needs and the text has: most texts need few rules.
type rule struct {
	needs traits
	has   string
	of    *regexp.Regexp
	by    string
}

// traits are what a text has. Rules only take traits away from it.
type traits uint8

const (
	digit   traits = 1 << iota
	dashed         // a digit before -
	slashed        // a digit before /
	timed          // a digit, : and a digit
	quoted         // a quotation mark, but '
)

func traitsOf(text string) (has traits) {
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			has |= digit
			has |= traitsAfter(text[i+1:])
		case c == '"', c == '`', c == 0xE2, c == 0xC2: // typographic ones begin with these
			has |= quoted
		}
	}
	return has
}

// traitsAfter are the traits by what follows a digit.
func traitsAfter(text string) traits {
	switch {
	case text == "":
		return 0
	case text[0] == '-':
		return dashed
	case text[0] == '/':
		return slashed
	case text[0] == ':' && len(text) > 1 && hasDigit(text[1:2]):
		return timed
	}
	return 0
}

const (
	clock = `\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?`
	zone  = `(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?`
	day   = `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*`
	month = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*`
	unit  = `(?:ns|us|\x{b5}s|\x{3bc}s|ms|msec|s|sec|secs|m|min|mins|h|hr|hrs|nanoseconds?|microseconds?|millis|milliseconds?|seconds?|minutes?|hours?|days?)`
)

// phrases are what consists of several words, and what is quoted.
var phrases = []rule{
	{dashed, "-", regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}(?:[T ]` + clock + zone + `)?\b`), "<time>"},
	{slashed, "/", regexp.MustCompile(`(^|[\s(\[=,])\d{4}/\d{2}/\d{2}(?: ` + clock + zone + `)?\b`), "${1}<time>"},
	{digit, " 2", regexp.MustCompile(`\b(?:` + day + `,? )?\d{1,2} ` + month + ` 2\d{3}(?: ` + clock + zone + `)?\b`), "<time>"},
	{timed, ":", regexp.MustCompile(`\b` + day + ` ` + month + ` +\d{1,2} ` + clock + zone + `(?: \d{4})?\b`), "<time>"},
	{timed, ":", regexp.MustCompile(`\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b`), "<time>"},
	{quoted, "", regexp.MustCompile(`"(?:[^"\\]|\\.)*"|` + "`[^`]*`" + `|\x{201c}[^\x{201d}]*\x{201d}|\x{2018}[^\x{2019}]*\x{2019}|\x{ab}[^\x{bb}]*\x{bb}`), "<text>"},
	{0, "'", regexp.MustCompile(`(^|[\s(\[{=:,<@>])[bu]?'(?:[^'\\]|\\.)*'`), "${1}<text>"},
	{0, "://", regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^\s"'<>)\]]*[^\s"'<>)\].,:;]`), "<address>"},
	{digit, "[", regexp.MustCompile(`\[[0-9A-Fa-f]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%\w+)?\](?::\d+)?`), "<address>"},
	{digit, "-", regexp.MustCompile(`\b[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\b`), "<id>"},
}

// runs are placeholders that belong together.
var runs = []rule{
	{0, "<n>", regexp.MustCompile(`<n> ?` + unit + `\b`), "<duration>"},
	{0, "<n>", regexp.MustCompile(`<n> ?(?:bytes?|[kKMGT]i?B)\b`), "<n> bytes"},
	{0, "<n>", regexp.MustCompile(`<n>(?:(?:, ?| )<n>)+`), "<n>"},
	{0, "<id>", regexp.MustCompile(`<id>(?:(?:, ?| )<id>)+`), "<id>"},
	{0, "<text>", regexp.MustCompile(`<text>(?:(?:, ?| )<text>)+`), "<text>"},
	{0, "<address>", regexp.MustCompile(`<address>(?:(?:, ?| )<address>)+`), "<address>"},
	{0, ">", regexp.MustCompile(`<(id|n)>(?:[-_.:/]?<(?:id|n)>)+`), "<id>"},
}
