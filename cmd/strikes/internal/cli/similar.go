package cli

import (
	"fmt"
	"strings"
)

// DidYouMean is a suggestion for a misspelt name, to be appended to an error; empty if no name is similar. The prefix is
// written before each name.
func DidYouMean(name string, names []string, prefix string) string {
	var similar []string
	for _, n := range names {
		if n != name && isSimilar(strings.ToLower(name), strings.ToLower(n)) {
			similar = append(similar, fmt.Sprintf("%q", prefix+n))
		}
	}
	const most = 3
	switch {
	case len(similar) == 0:
		return ""
	case len(similar) > most:
		similar = similar[:most]
	}
	return "; did you mean " + strings.Join(similar, " or ") + "?"
}

// isSimilar reports whether one name is the beginning of the other, or few letters differ.
func isSimilar(a, b string) bool {
	if len(a) > 2 && len(b) > 2 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
		return true
	}
	return distance([]rune(a), []rune(b)) <= min(3, max(len(a), len(b))/3)
}

// distance is the number of letters to insert, remove or replace between two words (Levenshtein's).
func distance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
