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
	if text = cut(text, read); !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.TrimSpace(text)
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
