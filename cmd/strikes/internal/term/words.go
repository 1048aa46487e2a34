package term

import (
	"fmt"
	"strings"
)

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
