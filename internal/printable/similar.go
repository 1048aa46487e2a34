package printable

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// mostSimilar is how many names DidYouMean suggests.
const mostSimilar = 3

// DidYouMean asks for the names that are like a misspelt one, the likeliest first, to be appended to an error; it is
// empty if there are none. The prefix comes before each name.
func DidYouMean(misspelt string, names []string, prefix string) string {
	away := map[string]int{}
	for _, name := range names {
		a, b := strings.ToLower(misspelt), strings.ToLower(name)
		if len(a) > len(b) {
			a, b = b, a
		}
		part := len(a) > 2 && (strings.HasPrefix(b, a) || strings.HasSuffix(b, a))
		d := distance([]rune(a), []rune(b))
		if name != misspelt && (part || d <= min(3, max(len(a), len(b))/3)) {
			away[name] = d
		}
	}
	likely := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, is := away[name]; return !is })
	slices.SortStableFunc(likely, func(a, b string) int { return cmp.Compare(away[a], away[b]) })
	if len(likely) == 0 {
		return ""
	}
	var quoted []string
	for _, name := range likely[:min(mostSimilar, len(likely))] {
		quoted = append(quoted, fmt.Sprintf("%q", prefix+name))
	}
	return "; did you mean " + strings.Join(quoted, " or ") + "?"
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
