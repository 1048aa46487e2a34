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

func TestUnknownPackagesAreRefused(t *testing.T) {
	packages := []string{"counter", "integration", "integration/bench"}
	for _, only := range []string{"", "counter", "integration,integration/bench"} {
		if err := checkNames(only, packages); err != nil {
			t.Errorf("-only %q: %v", only, err)
		}
	}
	for only, want := range map[string]string{
		"misspelt":               `-only: no package ["misspelt"]; the packages are counter, integration, integration/bench`,
		"counter,misspelt,bench": `-only: no package ["misspelt" "bench"]; the packages are counter, integration, integration/bench`,
		"counter,":               `-only: no package [""]; the packages are counter, integration, integration/bench`,
	} {
		var usage usageError
		if err := checkNames(only, packages); !errors.As(err, &usage) || usage.Error() != want {
			t.Errorf("-only %q: %v, want %q", only, err, want)
		}
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
