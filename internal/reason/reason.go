// Package reason puts errors that differ only in numbers, names and the like into one group.
package reason

import (
	"strings"
	"unicode/utf8"

	"github.com/strikesmq/strikes/internal/printable"
)

const (
	most   = 300  // bytes of a group's name
	read   = 1000 // bytes of a reason that are read
	rounds = 8    // until nothing changes; two are enough for most texts
)

// Normalise returns the first line of an error with placeholders for the parts that differ from one error of its group
// to the next. They are <n>, <id>, <text>, <address>, <duration>, <time> and <path>. Codes, such as HTTP statuses and
// SQLSTATEs, stay. The result has 300 bytes at most, and normalising it again changes nothing.
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
	if text = cut(text, read); !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.TrimSpace(text)
}

// settle normalises the result of next until it no longer changes.
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
	for _, r := range phrases {
		text = r.apply(text)
	}
	text = words(text, group)
	for _, r := range runs {
		text = r.apply(text)
	}
	return cut(strings.Join(strings.Fields(text), " "), most)
}

// Normaliser normalises many reasons of a queue, which have few groups, in less time than Normalise. The zero value is
// ready. It is not safe for concurrent use.
type Normaliser struct {
	groups map[string]string // by text
	alike  map[string]string // by text with other digits; empty if the digits matter
}

// remembered is the most entries that a Normaliser keeps in each of its maps.
const remembered = 4000

// Normalise returns the same as the function Normalise. The regular expressions take 10 µs, which is long in a queue
// of 100,000 order numbers. But they do not tell one digit from another. So texts that differ in digits alone are of
// one group, if its name is the same whatever the digits are.
func (n *Normaliser) Normalise(text string) string {
	text = firstLine(text)
	group, ok := n.groups[text]
	if ok {
		return group
	}
	ones := withDigits(text, '1')
	group, ok = n.alike[ones]
	if !ok {
		if group = Normalise(ones); group != Normalise(withDigits(text, '2')) {
			group = ""
		}
		n.alike = remember(n.alike, ones, group)
	}
	if group == "" {
		group = Normalise(text)
	}
	n.groups = remember(n.groups, text, group)
	return group
}

// withDigits returns a text with another digit for all but those of codes.
func withDigits(text string, digit rune) string {
	other := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return digit
		}
		return r
	}
	return words(text, func(w string) string { return strings.Map(other, w) })
}

// remember begins anew when m is full.
func remember(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	} else if len(m) >= remembered {
		clear(m)
	}
	m[strings.Clone(key)] = value
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
