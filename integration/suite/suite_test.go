package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDealGivesEachTestToOnePart(t *testing.T) {
	names := strings.Fields("a b c d e f g")
	for _, n := range []int{1, 2, 3, 10} {
		var got []string
		for _, part := range deal(names, nil, n) {
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

func TestDealBalances(t *testing.T) {
	got := deal(strings.Fields("a b c d e f g"), map[string]int{"c": 7, "f": 4, "g": 3}, 3)
	want := [][]string{{"c"}, {"f", "b", "e"}, {"g", "a", "d"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLongTestsExist(t *testing.T) {
	for pkg, tests := range long {
		var source []byte
		files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
		for _, file := range files {
			text, readErr := os.ReadFile(file)
			source, err = append(source, text...), errors.Join(err, readErr)
		}
		if err != nil {
			t.Fatal(err)
		}
		for name := range tests {
			if !bytes.Contains(source, []byte("\nfunc "+name+"(")) {
				t.Errorf("%s has no test %s", pkg, name)
			}
		}
	}
}
