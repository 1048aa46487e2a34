package counter

import (
	"strconv"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// parseRecord reads a record. Text that it cannot read has StateForeign.
func parseRecord(m Message, text string, ttl time.Duration) Record {
	r, ok := rules.Decode(text)
	if !ok {
		r = Record{Message: m, State: StateForeign}
	}
	r.VHost, r.Queue, r.TTL = m.VHost, m.Queue, ttl
	return r
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
