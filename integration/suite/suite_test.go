package main

import (
	"slices"
	"strings"
	"testing"
)

func TestDealGivesEachTestToOnePart(t *testing.T) {
	names := strings.Fields("a b c d e f g")
	for _, n := range []int{1, 2, 3, 10} {
		var got []string
		for _, part := range deal(names, n) {
			if len(part) < len(names)/n {
				t.Errorf("%d parts: one has %d tests", n, len(part))
			}
			got = append(got, part...)
		}
		if slices.Sort(got); !slices.Equal(got, names) {
			t.Errorf("%d parts: %q", n, got)
		}
	}
}
