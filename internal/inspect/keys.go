package inspect

import (
	"slices"
	"strings"
)

// keySet is what is known of the routing key of a dead letter.
type keySet struct {
	asked bool // false: not looked up yet
	any   bool
	one   []keyPattern // else it is one of these
}

// keyPattern is a routing key, or the pattern that one matched.
type keyPattern struct {
	text  string
	topic bool // * and # are wildcards
}

func exactly(key string) keySet { return keySet{asked: true, one: []keyPattern{{text: key}}} }

func anyKey() keySet { return keySet{asked: true, any: true} }

// name is equal for equal sets.
func (s keySet) name() string {
	var b strings.Builder
	if s.any || !s.asked {
		b.WriteString("any")
	}
	for _, p := range s.one {
		b.WriteString("\x00" + p.text)
		if p.topic {
			b.WriteString("\x00topic")
		}
	}
	return b.String()
}

// meets reports whether a key may match both. Row by row it computes which beginnings of both match a common key: a
// hostile pattern of many # must not cost more.
func (p keyPattern) meets(q keyPattern) bool {
	a, b := p.words(), q.words()
	row := make([]bool, len(b)+1)
	for i := 0; i <= len(a); i++ {
		next := make([]bool, len(b)+1)
		for j := 0; j <= len(b); j++ {
			switch {
			case i == 0 && j == 0:
				next[j] = true
			case i > 0 && a[i-1] == "#" && row[j], j > 0 && b[j-1] == "#" && next[j-1]:
				next[j] = true // # takes no word
			case i > 0 && j > 0:
				next[j] = a[i-1] == "#" && next[j-1] || b[j-1] == "#" && row[j] ||
					row[j-1] && (a[i-1] == b[j-1] || a[i-1] == "*" || b[j-1] == "*" || a[i-1] == "#" || b[j-1] == "#")
			}
		}
		row = next
	}
	return row[len(b)]
}

// words are those of the pattern. In a topic, * is one word and # any number of words; another word has "=" before it,
// because a key may have a word * or #, which is no wildcard.
func (p keyPattern) words() []string {
	if p.text == "" {
		return nil
	}
	words := strings.Split(p.text, ".")
	for i, w := range words {
		if !p.topic || w != "*" && w != "#" {
			words[i] = "=" + w
		}
	}
	return words
}

// within reports whether each key of p surely matches q.
func (p keyPattern) within(q keyPattern) bool {
	switch {
	case p == q, q.topic && q.text == "#":
		return true
	case p.topic:
		return false
	}
	return p.meets(q)
}

// under returns the keys of the set that match the pattern. If it cannot be exact it returns too many, never too few.
// It does not know further keys in a message's CC header.
func (s keySet) under(p keyPattern) keySet {
	if s.any || !s.asked {
		return keySet{asked: true, one: []keyPattern{p}}
	}
	var out []keyPattern
	for _, k := range s.one {
		switch {
		case !k.meets(p):
		case k.topic && !p.topic:
			out = append(out, p)
		default:
			out = append(out, k)
		}
	}
	return keySet{asked: true, one: slices.Compact(out)}
}

func (s keySet) empty() bool { return s.asked && !s.any && len(s.one) == 0 }

// within reports whether every key of the set surely matches the pattern.
func (s keySet) within(p keyPattern) bool {
	if s.any || !s.asked {
		return p.topic && p.text == "#"
	}
	return !slices.ContainsFunc(s.one, func(k keyPattern) bool { return !k.within(p) })
}
