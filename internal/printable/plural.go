package printable

import (
	"fmt"
	"strings"
)

// Plural is a number of things: "1 queue", "2 queues", "3 retries".
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %s", n, PluralOf(thing))
}

// PluralOf is the plural of a noun.
func PluralOf(thing string) string {
	if stem, y := strings.CutSuffix(thing, "ry"); y {
		return stem + "ries"
	}
	if strings.HasSuffix(thing, "sh") || strings.HasSuffix(thing, "ss") {
		return thing + "es"
	}
	return thing + "s"
}
