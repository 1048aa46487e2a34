package reason

import (
	"strings"
)

// shape appends the text to dst, and makes digits and ids without a meaning equal. So the errors of a group have few shapes. The
// group stays the same. It takes a twentieth of the time of next. It keeps what may have a meaning.
func shape(dst []byte, text string) []byte {
	last, before, codes := 0, "", false // codes: whatever before is, a code may follow it
	status := 0                         // words that may belong to the text of a status
	for begin, end, has := nextWord(text, 0); begin < len(text); begin, end, has = nextWord(text, end) {
		dst = append(dst, text[last:begin]...)
		w := text[begin:end]
		last = end
		core := trimWord(w)
		inside := begin > 0 && end < len(text) && text[begin-1] == '<' && text[end] == '>'
		switch {
		case core == "":
			dst = append(dst, w...)
			continue
		case status > 0 && core[0] > '9':
			dst = append(dst, w...)
			status, codes = status-1, true
			continue
		case has&decimal == 0, inside, has&beyondASCII != 0, mayBeVendor(core):
			dst = append(dst, w...)
			before, codes = core, inside && has&decimal != 0 || has&beyondASCII != 0
			continue
		case mayBeCode(core):
			if len(core) == 3 && title(text[end:]) {
				status = 2
				dst = append(dst, w...)
			} else if codes || namesCode(before) {
				dst = append(dst, w...)
			} else {
				dst = digits(dst, w)
			}
			codes = true
			continue
		case (isDigit(core[0]) || len(core) == 5) && (codes || namesCode(before)): // the year of a date, or an SQLSTATE
			dst = append(dst, w...)
			codes = true
			continue
		case isUUID(core):
			dst = append(dst, "77777777-7777-7777-7777-777777777777"...)
		case plain(core) && isMixed(core):
			dst = append(dst, "Z7Z7Z7Z7"...)
		case isBytes(core):
			dst = digits(dst, core)
		default:
			dst = runsOf(dst, core)
		}
		dst = append(dst, w[len(core):]...)
		before, codes = core, len(core) == 5
	}
	return append(dst, text[last:]...)
}

// trimWord returns a word without the marks that end it.
func trimWord(w string) string {
	for w != "" {
		switch w[len(w)-1] {
		case '.', ':', '-', '*':
			w = w[:len(w)-1]
			continue
		}
		break
	}
	return w
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
	switch {
	case len(core) < 3:
		return false
	case mayBeVendor(core):
		return true
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

// isBytes reports whether a word is a size in bytes or bits.
func isBytes(w string) bool {
	last := len(w) - 1
	return last > 0 && w[last]|0x20 == 'b' && allDigits(w[:last])
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
	number, letters := run, run // without the digits before, or after
	for number != "" && isDigit(number[0]) {
		number = number[1:]
	}
	for letters != "" && isDigit(letters[len(letters)-1]) {
		letters = letters[:len(letters)-1]
	}
	switch {
	case number == "", len(run)-len(letters) > 3 && !hasDigit(letters):
		return digits(dst, run)
	case len(run) < 7, number == "b", number == "B", number == "D", len(letters) == len(run) && !hasDigit(run):
		return append(dst, run...)
	}
	lower, upper := true, true
	for i := range len(run) {
		lower, upper = lower && isHex(run[i], 0x20), upper && isHex(run[i], 0x40)
	}
	letter := byte('f')
	switch {
	case !hasDigit(run) || !lower && !upper:
		return append(dst, run...)
	case upper:
		letter = 'F'
	}
	if isDigit(run[0]) { // an address may begin with a letter
		dst = append(dst, '7', letter)
	} else {
		dst = append(dst, letter, '7')
	}
	for range len(run) - 2 {
		dst = append(dst, '7')
	}
	return dst
}
