package term

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// Day has 24 hours.
const Day = 24 * time.Hour

// ParseAge reads 90s, 1h30m, 7d or 1d12h.
func ParseAge(s string) (time.Duration, error) {
	days, rest, has := strings.Cut(s, "d")
	if !has {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseUint(days, 10, 64)
	if err != nil {
		return 0, err
	}
	var more time.Duration
	if rest != "" {
		more, err = time.ParseDuration(rest)
	}
	if n >= uint64(math.MaxInt64/Day) || more < 0 || more > Day {
		return 0, strconv.ErrRange
	}
	return time.Duration(n)*Day + more, err
}

// Rough is a duration in its largest unit.
func Rough(d time.Duration) string { return printable.Rough(d) }

// Ago is how long ago t was, "-" for the zero time.
func Ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Rough(time.Since(t))
}
