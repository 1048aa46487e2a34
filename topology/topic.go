package topology

import "strings"

// topicMatches says whether a topic exchange routes a key to a binding: in the
// pattern, * is one word and # any number of words.
func topicMatches(pattern, key string) bool {
	return wordsMatch(words(pattern), words(key))
}

func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ".")
}

// wordsMatch fills in row by row which beginnings of the pattern match which
// beginnings of the key: a hostile pattern of many # must not cost more.
func wordsMatch(pattern, key []string) bool {
	row := make([]bool, len(key)+1)
	row[0] = true
	for _, p := range pattern {
		next := make([]bool, len(key)+1)
		next[0] = p == "#" && row[0]
		for i, k := range key {
			if p == "#" {
				next[i+1] = row[i+1] || next[i]
			} else {
				next[i+1] = row[i] && (p == "*" || p == k)
			}
		}
		row = next
	}
	return row[len(key)]
}
