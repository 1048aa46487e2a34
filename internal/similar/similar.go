// Package similar suggests names for a misspelt one.
package similar

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const most = 3

// Names returns the names that are like a misspelt one, the likeliest first, three at most.
func Names(misspelt string, names []string) []string {
	type candidate struct {
		name string
		away int
	}
	var found []candidate
	for _, name := range names {
		if away := distance([]rune(strings.ToLower(misspelt)), []rune(strings.ToLower(name))); name != misspelt &&
			isSimilar(misspelt, name, away) {
			found = append(found, candidate{name, away})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.away, b.away) })
	var out []string
	for _, c := range found[:min(most, len(found))] {
		out = append(out, c.name)
	}
	return out
}

// Question asks for the similar names, to be appended to an error; it is empty if there are none. The prefix comes
// before each name.
func Question(misspelt string, names []string, prefix string) string {
	var quoted []string
	for _, name := range Names(misspelt, names) {
		quoted = append(quoted, fmt.Sprintf("%q", prefix+name))
	}
	if len(quoted) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(quoted, " or ") + "?"
}

// isSimilar reports whether one name is the beginning of the other, or few letters differ.
func isSimilar(a, b string, away int) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(a) > 2 && len(b) > 2 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
		return true
	}
	return away <= min(3, max(len(a), len(b))/3)
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
