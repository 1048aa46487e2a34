package setting

import (
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

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
	if n >= uint64(math.MaxInt64/day) || more < 0 || more > day {
		return 0, strconv.ErrRange
	}
	return time.Duration(n)*day + more, err
}
