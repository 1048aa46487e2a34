package reason

import (
	"regexp"
	"strings"
)

// rule replaces each match of the expression of in a text that contains has. Most texts need few rules.
type rule struct {
	has string
	of  *regexp.Regexp
	by  string
}

func (r rule) apply(text string) string {
	if !strings.Contains(text, r.has) {
		return text
	}
	return r.of.ReplaceAllString(text, r.by)
}

const (
	clock = `\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?`
	zone  = `(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?`
	unit  = `(?:ns|us|\x{b5}s|\x{3bc}s|ms|msec|s|sec|secs|m|min|mins|h|hr|hrs|nanoseconds?|microseconds?|millis|` +
		`milliseconds?|seconds?|minutes?|hours?|days?)`
)

// phrases are the rules for quoted text and for values of several words.
var phrases = []rule{
	{"-", regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}(?:[T ]` + clock + zone + `)?\b`), "<time>"},
	{"/", regexp.MustCompile(`(^|[\s(\[=,])\d{4}/\d{2}/\d{2}(?: ` + clock + zone + `)?\b`), "${1}<time>"},
	{":", regexp.MustCompile(`\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b`), "<time>"},
	{`"`, regexp.MustCompile(`"(?:[^"\\]|\\.)*"`), "<text>"},
	{"`", regexp.MustCompile("`[^`]*`"), "<text>"},
	{"\u201c", regexp.MustCompile(`\x{201c}[^\x{201d}]*\x{201d}`), "<text>"},
	{"\u2018", regexp.MustCompile(`\x{2018}[^\x{2019}]*\x{2019}`), "<text>"},
	{"\u00ab", regexp.MustCompile(`\x{ab}[^\x{bb}]*\x{bb}`), "<text>"},
	{"'", regexp.MustCompile(`(^|[\s(\[{=:,<@>])[bu]?'(?:[^'\\]|\\.)*'`), "${1}<text>"},
	{"://", regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^\s"'<>)\]]*[^\s"'<>)\].,:;]`), "<address>"},
	{"[", regexp.MustCompile(`\[[0-9A-Fa-f]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%\w+)?\](?::\d+)?`), "<address>"},
	{"-", regexp.MustCompile(`\b[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\b`), "<id>"},
}

// runs are placeholders that belong together.
var runs = []rule{
	{"<n>", regexp.MustCompile(`<n> ?` + unit + `\b`), "<duration>"},
	{"<n>", regexp.MustCompile(`<n> ?(?:bytes?|[kKMGT]i?B)\b`), "<n> bytes"},
	{"<n>", regexp.MustCompile(`<n>(?:(?:, ?| )<n>)+`), "<n>"},
	{"<id>", regexp.MustCompile(`<id>(?:(?:, ?| )<id>)+`), "<id>"},
	{"<text>", regexp.MustCompile(`<text>(?:(?:, ?| )<text>)+`), "<text>"},
	{"<address>", regexp.MustCompile(`<address>(?:(?:, ?| )<address>)+`), "<address>"},
	{">", regexp.MustCompile(`<(id|n)>(?:[-_.:/]?<(?:id|n)>)+`), "<id>"},
}
