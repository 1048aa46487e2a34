package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

// FuzzBackoff: a backoff of any form is refused, or gives waits within its bounds.
func FuzzBackoff(f *testing.F) {
	for _, seed := range []string{"5s", "0", "100ms..30s", "1ns..1ns", "1ns..2562047h47m16.854775807s", "..", "1s..",
		"..1s", "-1s", "1s..1ms", "0..1s", "1s..2s..3s", "1e9s", "NaN"} {
		f.Add(seed, 3)
		f.Add(seed, math.MaxInt)
		f.Add(seed, math.MinInt)
	}
	f.Fuzz(func(t *testing.T, text string, failed int) {
		b, err := parseBackoff(text)
		if err != nil {
			return
		}
		from, to, isRange := strings.Cut(text, "..")
		least, _ := time.ParseDuration(from)
		most := least
		if isRange {
			most, _ = time.ParseDuration(to)
			least /= 2
		}
		if d := b.wait(failed); d < least || d > most {
			t.Errorf("%q: %v after %d failed attempts", text, d, failed)
		}
	})
}
