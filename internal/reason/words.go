package reason

import (
	"regexp"
	"strings"
)

const (
	decimal = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	marks   = `_./\:@#%+~$*-` // of numbers, names, paths and addresses
)

// inWord holds the bytes of words.
var inWord = func() (in [256]bool) {
	for b := range in {
		in[b] = b >= 0x80 || strings.IndexByte(decimal+letters+marks, byte(b)) >= 0
	}
	return in
}()

// nextWord finds the first word from a place on; it begins at the end of the text if there is none.
func nextWord(text string, from int) (begin, end int) {
	for from < len(text) && !inWord[text[from]] {
		from++
	}
	for end = from; end < len(text) && inWord[text[end]]; {
		end++
	}
	return from, end
}

// words replaces each word by the result of of. It keeps a number that names a kind of error.
func words(text string, of func(string) string) string {
	var b strings.Builder
	b.Grow(len(text))
	last, before, kept := 0, "", false // kept: the word before is a code
	for begin, end := nextWord(text, 0); begin < len(text); begin, end = nextWord(text, end) {
		head, w, after := text[:begin], text[begin:end], text[end:]
		core := strings.TrimRight(w, ".:-*")
		b.WriteString(text[last:begin])
		placeholder := strings.HasSuffix(head, "<") && strings.HasPrefix(after, ">")
		if kept = isCode(core, before, head, after, kept); placeholder || kept {
			b.WriteString(w)
		} else {
			b.WriteString(of(core))
			b.WriteString(w[len(core):])
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
	version = regexp.MustCompile(`^https?/[\d.]+$`)
	// beforeBracket are the words before a code in brackets.
	beforeBracket = regexp.MustCompile(`(?:Exception|Error|Broker|curl)$`)
	afterN        = regexp.MustCompile(
		`^:? (?:Bad Request|Unauthorized|Payment|Forbidden|Not Found|Method Not|Request Timeout|Conflict|Gone|Payload|` +
			`Unprocessable|` +
			`Too Many|Internal Server|Not Implemented|Bad Gateway|Service Unavailable|Gateway Time|Server Error|Client Error)`)
)

// beforeN are the words before a code.
const beforeN = " status http sqlstate error errno err code signal winerror success msg level state exit violation " +
	"statuscode errcode errorcode "

// isCode reports whether a word is a code that tells errors apart; before is the word before it, which may be one too.
func isCode(w, before, head, after string, listed bool) bool {
	if digits := strings.TrimPrefix(w, "-"); digits == "" || len(digits) > 5 || strings.Trim(digits, decimal) != "" {
		return false
	}
	name := strings.ToLower(before)
	return strings.Contains(beforeN, " "+name+" ") || version.MatchString(name) || listed ||
		strings.HasSuffix(head, "(") && beforeBracket.MatchString(before) || len(w) == 3 && afterN.MatchString(after)
}

func hasDigit(w string) bool { return strings.ContainsAny(w, decimal) }

var (
	file = regexp.MustCompile(
		`^(?:[\w.@+~-]+[/\\])*[\w.@+~-]+\.(?:go|java|kt|py|js|mjs|cjs|ts|tsx|cs|rb|php|rs|lua|sql|json|xml|ya?ml|toml|` +
			`ini|conf|cfg|csv|txt|log|pem|crt|key|so|dll|jar|exe|html|tmpl|sock|lock|tmp|parquet|zip|gz|pdf|png)(?::\d+){0,2}$`)
	rooted   = regexp.MustCompile(`^(?:~|\.{1,2})?[/\\][^/\\:]|^[A-Za-z]:[/\\]`)
	ipv4     = regexp.MustCompile(`^\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?:/\d+)?$`)
	ipv6     = regexp.MustCompile(`^[0-9A-Fa-f]*(?::[0-9A-Fa-f]*){3,7}(?:%\w+)?$`)
	hostPort = regexp.MustCompile(`^(?:localhost|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+):\d{1,5}$`)
	host     = regexp.MustCompile(
		`^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.(?:com|net|org|io|internal|local|svc|dev|test|lan|cloud|example|invalid|eu|` +
			`de|uk|us)$|^localhost$`)
	mail     = regexp.MustCompile(`^[^@\s]+@[\w-]+(?:\.[\w-]+)+$`)
	object   = regexp.MustCompile(`^([\w.$]*[A-Za-z$])@[0-9a-f]{4,16}$`)
	duration = regexp.MustCompile(`^(?:\d+(?:\.\d+)?` + unit + `)+$|^PT?[\d.DHMST]*\d[DHMS]$`)
	size     = regexp.MustCompile(`^\d+(?:\.\d+)?(?:B|[kKMGT]i?B|b|k|st|nd|rd|th|x)$`)
	hex      = regexp.MustCompile(`^(?:\dx[0-9A-Fa-f]+|[0-9a-f]{7,}|[0-9A-F]{7,})$`)
	mixed    = regexp.MustCompile(`^[A-Za-z0-9]{8,}$`)
	turns    = regexp.MustCompile(`\d[A-Za-z]|[A-Za-z]\d`)
	tail     = regexp.MustCompile(`\d{4,}$`)
)

// group is the placeholder of a word, or the word itself.
func group(w string) string {
	numbered := hasDigit(w)
	switch {
	case !numbered && (len(w) < 2 || !strings.ContainsAny(w, `./\:@`) && w != "localhost"):
		return w
	case file.MatchString(w), rooted.MatchString(w):
		return "<path>"
	case ipv4.MatchString(w), hostPort.MatchString(w), host.MatchString(w), mail.MatchString(w), strings.Count(w,
		":") > 2 && ipv6.MatchString(w):
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
	return part.ReplaceAllStringFunc(w, ofPart)
}

var part = regexp.MustCompile(`[\pL\pN]+`)

// ofPart is the placeholder of a number or an id within a word, or the part itself.
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
