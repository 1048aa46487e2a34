package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseBackoff(t *testing.T) {
	tests := []struct {
		in              string
		failed          int
		lowest, highest time.Duration
	}{
		{"0", 1, 0, 0},
		{"2s", 1, 2 * time.Second, 2 * time.Second},
		{"2s", 9, 2 * time.Second, 2 * time.Second},
		{"100ms..30s", 1, 50 * time.Millisecond, 100 * time.Millisecond},
		{"100ms..30s", 3, 200 * time.Millisecond, 400 * time.Millisecond},
		{"100ms..30s", 1000, 15 * time.Second, 30 * time.Second},
		{"100ms..250ms", 3, 125 * time.Millisecond, 250 * time.Millisecond},
		{"1ns..2562047h", 1000, math.MaxInt64 / 3, math.MaxInt64}, // doubling must not overflow
	}
	for _, tt := range tests {
		b, err := parseBackoff(tt.in)
		if err != nil {
			t.Fatalf("%s: %v", tt.in, err)
		}
		for range 100 {
			if got := b.wait(tt.failed); got < tt.lowest || got > tt.highest {
				t.Errorf("%s after %d failed attempts: %v, want %v to %v", tt.in, tt.failed, got, tt.lowest, tt.highest)
				break
			}
		}
	}
}

func TestParseBackoffRefuses(t *testing.T) {
	for _, in := range []string{"", "5", "-1s", "1s..", "..1s", "2s..1s", "0..1s", "1s..2s..3s", "soon"} {
		if _, err := parseBackoff(in); err == nil {
			t.Errorf("%q is accepted", in)
		}
	}
}

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
