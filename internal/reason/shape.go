package reason

import (
	"strings"
)

// shape appends the text to dst, and makes digits and ids without a meaning equal. So the errors of a group have few shapes. The
// group stays the same. It takes a tenth of the time of next. It keeps what may have a meaning.
func shape(dst []byte, text string) []byte {
	last, codes := 0, false // codes: the word before may name a kind of code
	for begin, end := nextWord(text, 0); begin < len(text); begin, end = nextWord(text, end) {
		dst = append(dst, text[last:begin]...)
		w := text[begin:end]
		last = end
		core := strings.TrimRight(w, ".:-*")
		inside := begin > 0 && end < len(text) && text[begin-1] == '<' && text[end] == '>'
		switch {
		case core == "":
			dst = append(dst, w...)
			continue
		case inside, !ascii(w), !hasDigit(core), mayBeVendor(core):
			dst = append(dst, w...)
			codes = !ascii(w) || namesCode(core) || mayBeVendor(core)
			continue
		case mayBeCode(core):
			if codes || len(core) == 3 && title(text[end:]) {
				dst = append(dst, w...)
			} else {
				dst = digits(dst, w)
			}
			codes = true
			continue
		case codes && (isDigit(core[0]) || len(core) == 5): // the year of a date, or an SQLSTATE
			dst = append(dst, w...)
			continue
		case isUUID(core):
			dst = append(dst, "77777777-7777-7777-7777-777777777777"...)
		case plain(core) && isMixed(core):
			dst = append(dst, "Z7Z7Z7Z7"...)
		default:
			dst = runsOf(dst, core)
		}
		dst = append(dst, w[len(core):]...)
		codes = namesCode(core) || len(core) == 5
	}
	return append(dst, text[last:]...)
}

func ascii(w string) bool {
	for i := range len(w) {
		if w[i] >= 0x80 {
			return false
		}
	}
	return true
}

// digits appends a word with its digits alike.
func digits(dst []byte, w string) []byte {
	for i := range len(w) {
		c := w[i]
		if isDigit(c) {
			c = '7'
		}
		dst = append(dst, c)
	}
	return dst
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { c |= 0x20; return c >= 'a' && c <= 'z' }

// mayBeCode reports whether a word is a number that may be a code.
func mayBeCode(core string) bool {
	n := strings.TrimPrefix(core, "-")
	return len(n) < 6 && allDigits(n)
}

// mayBeVendor reports whether a word may be the code of a vendor, of which each digit counts.
func mayBeVendor(core string) bool {
	if len(core) < 3 {
		return false
	}
	switch core[:3] {
	case "ORA", "TNS", "PLS", "HTT", "UTF", "ISO", "SHA", "RFC", "CVE", "AMQ", "JBA", "HHH", "E11", "SQL", "0x8":
		return true
	}
	return strings.EqualFold(core[:2], "hy")
}

// title reports whether what follows a number begins as the text of a status does.
func title(after string) bool {
	after = strings.TrimPrefix(after, ":")
	return len(after) > 1 && after[0] == ' ' && after[1] >= 'A' && after[1] <= 'Z'
}

// codeNames are the words of beforeN.
var codeNames = map[string]bool{
	"status": true, "http": true, "sqlstate": true, "error": true, "errno": true, "err": true, "code": true, "signal": true, "winerror": true,
	"success": true, "msg": true, "level": true, "state": true, "exit": true, "violation": true, "statuscode": true, "errcode": true, "errorcode": true,
}

// namesCode reports whether a number after this word may be a code, or the year of a date.
func namesCode(core string) bool {
	if len(core) < 3 {
		return false
	}
	for _, end := range [...]string{"Exception", "Error", "Broker", "curl"} { // of beforeBracket
		if core[len(core)-1] == end[len(end)-1] && strings.HasSuffix(core, end) {
			return true
		}
	}
	switch core[:3] {
	case "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec":
		return true
	}
	if strings.EqualFold(core[:3], "htt") {
		return true
	}
	var lower [10]byte
	if len(core) > len(lower) {
		return false
	}
	for i := range len(core) {
		lower[i] = core[i]
		if core[i] >= 'A' && core[i] <= 'Z' {
			lower[i] |= 0x20
		}
	}
	return codeNames[string(lower[:len(core)])]
}

func isUUID(w string) bool {
	if len(w) != 36 {
		return false
	}
	for i := range len(w) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (w[i] == '-') || !dash && !isHex(w[i], 0) {
			return false
		}
	}
	return true
}

// isHex reports whether a byte is a hexadecimal digit whose letters are lower (0x20), upper (0x40) or any (0) case.
func isHex(c, letters byte) bool {
	switch {
	case isDigit(c):
		return true
	case c >= 'a' && c <= 'f':
		return letters != 0x40
	case c >= 'A' && c <= 'F':
		return letters != 0x20
	}
	return false
}

// isMixed reports whether a plain word becomes an id, and certainly no duration or size.
func isMixed(w string) bool {
	if len(w) < 16 || w[0] == 'P' {
		return false
	}
	first := strings.IndexFunc(w, func(r rune) bool { return r < '0' || r > '9' })
	if first < 0 || first > 0 && strings.IndexByte("nusmhd", w[first]) >= 0 {
		return false
	}
	turns := 0
	for i := 1; i < len(w); i++ {
		if isDigit(w[i-1]) != isDigit(w[i]) {
			turns++
			i++
		}
	}
	return turns > 1
}

// runsOf appends a word with its numbers and hexadecimal ids alike.
func runsOf(dst []byte, w string) []byte {
	for begin := 0; begin < len(w); {
		end := begin
		for end < len(w) && (isDigit(w[end]) || isLetter(w[end])) {
			end++
		}
		if end == begin {
			dst, begin = append(dst, w[begin]), begin+1
			continue
		}
		dst, begin = runOf(dst, w[begin:end]), end
	}
	return dst
}

// runOf appends a run of letters and digits.
func runOf(dst []byte, run string) []byte {
	number := strings.TrimLeft(run, "0123456789")
	letters := strings.TrimRight(run, "0123456789")
	switch {
	case number == "", len(run)-len(letters) > 3 && !hasDigit(letters):
		return digits(dst, run)
	case len(run) < 7, len(number) == 1, len(letters) == len(run) && !hasDigit(run):
		return append(dst, run...)
	}
	lower, upper := true, true
	for i := range len(run) {
		lower, upper = lower && isHex(run[i], 0x20), upper && isHex(run[i], 0x40)
	}
	switch {
	case lower && hasDigit(run):
		dst = append(dst, 'f')
	case upper && hasDigit(run):
		dst = append(dst, 'F')
	default:
		return append(dst, run...)
	}
	for range len(run) - 1 {
		dst = append(dst, '7')
	}
	return dst
}
