package main

import (
	"bytes"
	"errors"
	"maps"
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

func TestPartsHaveEachTestOnce(t *testing.T) {
	for _, pkg := range []string{"integration", "integration/servers", "consumer", "topology"} {
		for _, test := range append([]string{"TestAnyOther"}, long[pkg]...) {
			short, longer := partShort.has(pkg) && partShort.hasTest(pkg, test), partLong.has(pkg) && partLong.hasTest(pkg, test)
			if short == longer || !partAll.has(pkg) || !partAll.hasTest(pkg, test) {
				t.Errorf("%s of %s: short %v, long %v", test, pkg, short, longer)
			}
		}
	}
}

func TestLongTestsExist(t *testing.T) {
	tests := maps.Clone(long)
	for pkg, longest := range seconds {
		tests[pkg] = slices.AppendSeq(slices.Clone(tests[pkg]), maps.Keys(longest))
	}
	for pkg, names := range tests {
		if !slices.ContainsFunc(slow, func(p slowPackage) bool { return p.path == pkg }) {
			t.Errorf("package %s has long tests, and no shards", pkg)
		}
		files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
		var source []byte
		for _, file := range files {
			text, readErr := os.ReadFile(file)
			source, err = append(source, text...), errors.Join(err, readErr)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !bytes.Contains(source, []byte("\nfunc "+name+"(")) {
				t.Errorf("%s has no test %s", pkg, name)
			}
		}
	}
}
