package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// defaultBackoff is the default of the flags named backoff.
const defaultBackoff = "100ms..30s"

// Backoff is how long a message waits before its next attempt.
type Backoff struct {
	first   time.Duration
	Last    time.Duration // the longest
	doubles bool
}

// parseBackoff reads "5s", always that long, or "100ms..30s": doubled with each failure from the first to the last,
// less a random part of up to a half, so that messages which failed together do not come back together.
func parseBackoff(s string) (Backoff, error) {
	from, to, isRange := strings.Cut(s, "..")
	first, err := parseWait(from)
	if err != nil {
		return Backoff{}, fmt.Errorf("%q: %w", s, err)
	}
	if !isRange {
		return Backoff{first: first, Last: first}, nil
	}
	last, err := parseWait(to)
	switch {
	case err != nil:
		return Backoff{}, fmt.Errorf("%q: %w", s, err)
	case first == 0 || last < first:
		return Backoff{}, fmt.Errorf("%q: it goes from a positive duration to one that is not shorter", s)
	}
	return Backoff{first, last, true}, nil
}

func parseWait(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration like 0, 500ms or 1m", s)
	}
	return d, nil
}

// Wait returns the wait of a message after so many failed attempts.
func (b Backoff) Wait(failed int) time.Duration {
	if !b.doubles {
		return b.first
	}
	d := doubled(b.first, b.Last, failed)
	return d - rand.N(d/2+1) //nolint:gosec // guessing it gains nothing
}

// doubled is first after one failed attempt, twice that after two, and so on up to last.
func doubled(first, last time.Duration, failed int) time.Duration {
	d := first
	for ; failed > 1 && d < last; failed-- {
		if d > last/2 {
			return last
		}
		d *= 2
	}
	return min(d, last)
}

// mostRetries is the largest MaxRetries of a consumer.Consumer.
const mostRetries = 1000
