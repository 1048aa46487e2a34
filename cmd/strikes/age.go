package main

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

// ageFlag takes a time like a cli.DurationFlag, or a number of days.
type ageFlag = cli.FlagBase[time.Duration, cli.NoConfig, ageValue]

type ageValue struct{ to *time.Duration }

func (ageValue) Create(value time.Duration, to *time.Duration, _ cli.NoConfig) cli.Value {
	*to = value
	return &ageValue{to}
}

func (ageValue) ToString(value time.Duration) string { return value.String() }

func (a *ageValue) Set(s string) (err error) {
	*a.to, err = parseAge(s)
	return err
}

func (a *ageValue) Get() any { return *a.to }

func (a *ageValue) String() string { return a.to.String() }

const day = 24 * time.Hour

// parseAge reads 90s, 1h30m, 7d or 1d12h; a day has 24 hours.
func parseAge(s string) (time.Duration, error) {
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
