package term

import (
	"fmt"
	"strings"
)

// Plural is a number of things.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, y := strings.CutSuffix(thing, "y"); y {
		thing = stem + "ie"
	} else if strings.HasSuffix(thing, "sh") {
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// namesShown is how many names a line has.
const namesShown = 20

// Names lists names for a line of text.
func Names(ids []string) string {
	var names []string
	for _, id := range ids[:min(namesShown, len(ids))] {
		names = append(names, Shown(id))
	}
	text := strings.Join(names, " ")
	if more := len(ids) - namesShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
