// Package reason puts errors that differ only in numbers, names and the like into one group.
package reason

import (
	"regexp"
	"strings"

	"github.com/strikesmq/strikes/internal/printable"
)

const (
	most   = 300  // bytes of a group's name
	read   = 1000 // bytes of a reason that are read
	rounds = 8    // until nothing changes; two are enough for most texts
)

// Normalise returns the first line of an error with placeholders for what differs from one error of its group to the next: <n>,
// <id>, <text>, <address>, <duration>, <time> and <path>. Codes, such as HTTP statuses and SQLSTATEs, stay. The result has 300
// bytes at most, and normalising it again changes nothing.
func Normalise(text string) string {
	return settle(next(firstLine(text)))
}

// firstLine returns the first line that is not blank.
func firstLine(text string) string {
	text = strings.TrimSpace(text)
	for _, end := range [...]byte{'\n', '\r'} {
		if at := strings.IndexByte(text, end); at >= 0 {
			text = text[:at]
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(cut(text, read), "\uFFFD"))
}

// settle normalises what next returned until nothing changes.
func settle(text string) string {
	for range rounds - 1 {
		again := next(text)
		if again == text {
			break
		}
		text = again
	}
	return text
}

// next takes every rule in turn: phrases, words, and then runs of placeholders.
func next(text string) string {
	has := traitsOf(text)
	for _, r := range phrases {
		if has&r.needs == r.needs && strings.Contains(text, r.has) {
			text = r.of.ReplaceAllString(text, r.by)
		}
	}
	text = words(text)
	if strings.IndexByte(text, '<') >= 0 {
		for _, r := range runs {
			if strings.Contains(text, r.has) {
				text = r.of.ReplaceAllString(text, r.by)
			}
		}
	}
	return cut(strings.Join(strings.Fields(text), " "), most)
}

// Normaliser normalises many reasons of a queue, which have few groups, in less time than Normalise. The zero value is ready. It is
// not safe for concurrent use.
type Normaliser struct {
	shapes  map[string]string // groups by shape
	settled map[string]string // groups by what next returned
	buf     []byte
}

// remembered bounds what a Normaliser keeps of each.
const remembered = 4000

// Normalise returns what the function Normalise does.
func (n *Normaliser) Normalise(text string) string {
	text = firstLine(text)
	n.buf = shape(n.buf[:0], text)
	group, ok := n.shapes[string(n.buf)]
	if !ok {
		group = n.settle(next(text))
		n.shapes = remember(n.shapes, string(n.buf), group)
	}
	return group
}

func (n *Normaliser) settle(text string) string {
	group, ok := n.settled[text]
	if !ok {
		group = settle(text)
		n.settled = remember(n.settled, text, group)
	}
	return group
}

// remember begins anew when m is full.
func remember(m map[string]string, key, value string) map[string]string {
	if m == nil || len(m) >= remembered {
		m = map[string]string{}
	}
	m[key] = strings.Clone(value)
	return m
}

// cut shortens a text at the end of a character, and not within a placeholder.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	text = strings.ToValidUTF8(printable.Cut(text, n), "")
	if open := strings.LastIndexByte(text, '<'); open > strings.LastIndexByte(text, '>') && n-open < len("<duration>") {
		text = text[:open]
	}
	return strings.TrimSpace(text)
}

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

func hasDigit(text string) bool {
	for i := range len(text) {
		if text[i] >= '0' && text[i] <= '9' {
			return true
		}
	}
	return false
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

// inWord are the bytes of numbers, names, paths and addresses, and of all characters beyond ASCII.
var inWord = func() (in [256]bool) {
	for b := range in {
		c := byte(b)
		in[b] = c >= 0x80 || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(`_./\:@#%+~$*-`, c) >= 0
	}
	return in
}()

// nextWord finds the first word from a place on; it begins at the end of the text if there is none.
func nextWord(text string, from int) (begin, end int) {
	for from < len(text) && !inWord[text[from]] {
		from++
	}
	end = from
	for end < len(text) && inWord[text[end]] {
		end++
	}
	return from, end
}

// words replaces each word by its group. A number that names a kind of error stays.
func words(text string) string {
	var b strings.Builder
	last, before := 0, ""
	for begin, end := nextWord(text, 0); begin < len(text); begin, end = nextWord(text, end) {
		w := text[begin:end]
		core := strings.TrimRight(w, ".:-*")
		b.WriteString(text[last:begin])
		if inside := begin > 0 && end < len(text) && text[begin-1] == '<' && text[end] == '>'; inside || isCode(core, before, text[:begin], text[end:]) {
			b.WriteString(w)
		} else {
			b.WriteString(group(core) + w[len(core):])
		}
		if last = end; core != "" {
			before = core
		}
	}
	b.WriteString(text[last:])
	return b.String()
}

var (
	number  = regexp.MustCompile(`^[#+-]?\d[\d_.,]*%?$`)
	code    = regexp.MustCompile(`^-?\d{1,5}$`)
	beforeN = regexp.MustCompile(`(?i)^(?:status|http|https?/[\d.]+|sqlstate|error|errno|err|code|signal|winerror|success|msg|level|state|exit|violation|hy000|statuscode|errcode|errorcode)$`)
	// beforeBracket are the words before a code in brackets.
	beforeBracket = regexp.MustCompile(`(?:Exception|Error|Broker|curl)$`)
	afterN        = regexp.MustCompile(`^:? (?:Bad Request|Unauthorized|Payment|Forbidden|Not Found|Method Not|Request Timeout|Conflict|Gone|Payload|Unprocessable|` +
		`Too Many|Internal Server|Not Implemented|Bad Gateway|Service Unavailable|Gateway Time|Server Error|Client Error)`)
	vendor = regexp.MustCompile(`^(?:(?:ORA|TNS|PLS|HTTP|UTF|ISO|SHA|RFC|CVE|AMQ|JBAS|HHH)[-/]?[\d.]+|E11000|SQL\d{4}[NW]|\d{2}[0-9A-Z]{3}|0x80[0-9A-Fa-f]{6})$`)
)

// isCode reports whether a word is a code that tells errors apart; before is the word before it.
func isCode(w, before, head, after string) bool {
	switch {
	case !hasDigit(w):
		return false
	case allDigits(w) && len(w) > 5:
		return false
	case !allDigits(w) && vendor.MatchString(w) && (w[0] > '9' || strings.HasPrefix(w, "0x") || beforeN.MatchString(before)):
		return true
	case !code.MatchString(w):
		return false
	}
	return beforeN.MatchString(before) || strings.HasSuffix(head, "(") && beforeBracket.MatchString(before) ||
		hasDigit(before) && (code.MatchString(before) || vendor.MatchString(before)) || len(w) == 3 && afterN.MatchString(after)
}

func allDigits(w string) bool { return strings.Trim(w, "0123456789") == "" }

var (
	file     = regexp.MustCompile(`^(?:[\w.@+~-]+[/\\])*[\w.@+~-]+\.(?:go|java|kt|py|js|mjs|cjs|ts|tsx|cs|rb|php|rs|lua|sql|json|xml|ya?ml|toml|ini|conf|cfg|csv|txt|log|pem|crt|key|so|dll|jar|exe|html|tmpl|sock|lock|tmp|parquet|zip|gz|pdf|png)(?::\d+){0,2}$`)
	rooted   = regexp.MustCompile(`^(?:~|\.{1,2})?[/\\][^/\\:]|^[A-Za-z]:[/\\]`)
	ipv4     = regexp.MustCompile(`^\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?:/\d+)?$`)
	ipv6     = regexp.MustCompile(`^[0-9A-Fa-f]*(?::[0-9A-Fa-f]*){3,7}(?:%\w+)?$`)
	hostPort = regexp.MustCompile(`^(?:localhost|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+):\d{1,5}$`)
	host     = regexp.MustCompile(`^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.(?:com|net|org|io|internal|local|svc|dev|test|lan|cloud|example|invalid|eu|de|uk|us)$|^localhost$`)
	mail     = regexp.MustCompile(`^[^@\s]+@[\w-]+(?:\.[\w-]+)+$`)
	object   = regexp.MustCompile(`^([\w.$]*[A-Za-z$])@[0-9a-f]{4,16}$`)
	duration = regexp.MustCompile(`^(?:\d+(?:\.\d+)?` + unit + `)+$|^PT?[\d.DHMST]*\d[DHMS]$`)
	size     = regexp.MustCompile(`^\d+(?:\.\d+)?(?:B|[kKMGT]i?B|b|k|st|nd|rd|th|x)$`)
	hex      = regexp.MustCompile(`^(?:0x[0-9A-Fa-f]+|[0-9a-f]{7,}|[0-9A-F]{7,})$`)
	mixed    = regexp.MustCompile(`^[A-Za-z0-9]{8,}$`)
	turns    = regexp.MustCompile(`\d[A-Za-z]|[A-Za-z]\d`)
	tail     = regexp.MustCompile(`\d{4,}$`)
)

// group is the placeholder of a word, or the word itself.
func group(w string) string {
	numbered := hasDigit(w)
	switch {
	case numbered && allDigits(w):
		return "<n>"
	case numbered && plain(w): // none of the cases below that need a dot, a slash, a colon or an @
		return ofPlain(w)
	case !numbered && (len(w) < 2 || !strings.ContainsAny(w, `./\:@`) && w != "localhost"):
		return w
	case file.MatchString(w), rooted.MatchString(w):
		return "<path>"
	case ipv4.MatchString(w), hostPort.MatchString(w), host.MatchString(w), mail.MatchString(w), strings.Count(w, ":") > 2 && ipv6.MatchString(w):
		return "<address>"
	case !numbered && !strings.Contains(w, "@"):
		return w
	case object.MatchString(w):
		return object.ReplaceAllString(w, "${1}@<id>")
	case duration.MatchString(w):
		return "<duration>"
	case number.MatchString(w), size.MatchString(w):
		return "<n>"
	}
	return parts(w)
}

// plain reports whether a word is of ASCII letters and digits alone.
func plain(w string) bool {
	for i := range len(w) {
		if c := w[i] | 0x20; (c < 'a' || c > 'z') && (w[i] < '0' || w[i] > '9') {
			return false
		}
	}
	return true
}

func ofPlain(w string) string {
	switch {
	case duration.MatchString(w):
		return "<duration>"
	case size.MatchString(w):
		return "<n>"
	}
	return ofPart(w)
}

var part = regexp.MustCompile(`[\pL\pN]+`)

// parts replaces the numbers and ids within a word.
func parts(w string) string {
	return part.ReplaceAllStringFunc(w, ofPart)
}

func ofPart(p string) string {
	switch {
	case !hasDigit(p):
		return p
	case number.MatchString(p):
		return "<n>"
	case hex.MatchString(p), mixed.MatchString(p) && len(turns.FindAllString(p, -1)) > 1:
		return "<id>"
	}
	return tail.ReplaceAllString(p, "<n>")
}
