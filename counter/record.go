package counter

import (
	"strconv"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// parseRecord reads a record of a queue; false: the text is none.
func parseRecord(of Queue, text string) (Record, bool) {
	r, ok := rules.Decode(text)
	r.VHost, r.Queue = of.VHost, of.Name
	return r, ok
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// millis reads a time in ms; zero if it is 0 or absent.
func millis(s string) time.Time {
	if n := number(s); n > 0 {
		return rules.Instant(n)
	}
	return time.Time{}
}
