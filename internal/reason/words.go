package reason

import (
	"regexp"
	"strings"
)

// class is what a byte is, or what the bytes of a word are together.
type class uint8

const (
	inWord class = 1 << iota // of numbers, names, paths and addresses
	decimal
	beyondASCII
)

var classes = func() (of [256]class) {
	for b := range of {
		c := byte(b)
		switch {
		case c >= 0x80:
			of[b] = inWord | beyondASCII
		case isDigit(c):
			of[b] = inWord | decimal
		case isLetter(c), strings.IndexByte(`_./\:@#%+~$*-`, c) >= 0:
			of[b] = inWord
		}
	}
	return of
}()

// nextWord finds the first word from a place on; it begins at the end of the text if there is none.
func nextWord(text string, from int) (begin, end int, has class) {
	for from < len(text) && classes[text[from]] == 0 {
		from++
	}
	for end = from; end < len(text); end++ {
		c := classes[text[end]]
		if c == 0 {
			break
		}
		has |= c
	}
	return from, end, has
}

// words replaces each word by its group. A number that names a kind of error stays.
func words(text string) string {
	var b strings.Builder
	last, before := 0, ""
	for begin, end, _ := nextWord(text, 0); begin < len(text); begin, end, _ = nextWord(text, end) {
		w := text[begin:end]
		core := trimWord(w)
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

func hasDigit(text string) bool {
	for i := range len(text) {
		if text[i] >= '0' && text[i] <= '9' {
			return true
		}
	}
	return false
}

func allDigits(w string) bool {
	for i := range len(w) {
		if !isDigit(w[i]) {
			return false
		}
	}
	return true
}

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
