package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// slow lists the packages that run side by side, the longest first, and in how many shards.
var slow = []slowPackage{
	{"integration", 8}, {"cmd/strikes", 4}, {"integration/console", 2}, {"integration/internal/cluster", 2}, {"counter", 1},
	{"consumer", 2}, {"integration/servers", 2}, {"examples", 1}, {"integration/release", 1}, {"integration/figures", 1},
	{"integration/bench", 1}, {"integration/compare", 1},
}

type slowPackage struct {
	path   string
	shards int
}

const module = "github.com/strikesmq/strikes/"

// process is one test process.
type process struct {
	name string
	cmd  *exec.Cmd
}

// workspace returns the packages of all modules, as paths in the repository.
func workspace(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "work").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	packages := strings.Fields(string(out))
	for i, pkg := range packages {
		packages[i] = strings.TrimPrefix(pkg, module)
	}
	return packages, nil
}

// checkNames refuses a -only that names a package which does not exist: its tests would seem to pass.
func checkNames(only string, packages []string) error {
	if only == "" {
		return nil
	}
	unknown := slices.DeleteFunc(strings.Split(only, ","), func(name string) bool { return slices.Contains(packages, name) })
	if len(unknown) == 0 {
		return nil
	}
	return usageError{fmt.Sprintf("-only: no package %q; the packages are %s", unknown, strings.Join(packages, ", "))}
}

// usageError is an error in the arguments. The exit status is then 2.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// processes sends every process on all: those of a package as soon as its tests are built. It closes all.
func (s *suite) processes(ctx context.Context, names []string, all chan<- process) error {
	defer close(all)
	packages := slices.DeleteFunc(slices.Clone(slow), func(p slowPackage) bool { return !s.chosen(p.path) || !s.part.has(p.path) })
	others := slices.DeleteFunc(slices.Clone(names), func(pkg string) bool {
		return !s.chosen(pkg) || !s.part.has(pkg) || slices.ContainsFunc(slow, func(p slowPackage) bool { return p.path == pkg })
	})
	for i, p := range packages {
		shards, err := s.shards(ctx, p)
		if err != nil {
			return err
		}
		for _, shard := range shards {
			all <- shard
		}
		if i == 0 {
			s.rest(ctx, others, all)
			others = nil
		}
	}
	s.rest(ctx, others, all)
	return nil
}

// rest sends the process of the packages that are not slow. It comes second, because it takes long: it builds them too.
func (s *suite) rest(ctx context.Context, packages []string, all chan<- process) {
	if len(packages) == 0 {
		return
	}
	args := s.goTest("-count=1", "-timeout", timeout)
	if s.skip != "" {
		args = append(args, "-skip", s.skip)
	}
	for _, pkg := range packages {
		args = append(args, module+pkg)
	}
	all <- process{name: "the other packages", cmd: exec.CommandContext(ctx, "go", args...)} //nolint:gosec // the names of packages
}

// part is which tests of a package run.
type part string

const (
	partAll   part = "all"
	partShort part = "short"
	partLong  part = "long"
)

// has reports whether any test of the package may belong to the part.
func (p part) has(pkg string) bool {
	tests, isLong := long[pkg]
	switch p {
	case partShort:
		return !isLong || len(tests) > 0
	case partLong:
		return isLong
	default:
		return true
	}
}

// hasTest reports whether a test of a package that the part has belongs to it.
func (p part) hasTest(pkg, test string) bool {
	tests := long[pkg]
	return p == partAll || len(tests) == 0 || slices.Contains(tests, test) == (p == partLong)
}

// chosen reports whether -only has the package.
func (s *suite) chosen(pkg string) bool {
	return s.only == "" || slices.Contains(strings.Split(s.only, ","), pkg)
}

// goTest begins a command that builds tests, without debug information: linking takes half as long. go vet is a step of
// its own in .ci/run.
func (s *suite) goTest(args ...string) []string {
	return append([]string{"test", "-vet=off", "-ldflags=-s -w", fmt.Sprint("-race=", s.race)}, args...)
}

// shards builds the tests of a package, behind the tests that run meanwhile, and deals them out.
func (s *suite) shards(ctx context.Context, p slowPackage) (all []process, err error) {
	binary := filepath.Join(s.dir, path.Base(p.path)+".test")
	build := append([]string{"go"}, s.goTest("-c", "-o", binary, module+p.path)...)
	if out, err := exec.CommandContext(ctx, "nice", build...).CombinedOutput(); err != nil { //nolint:gosec // a package of ours
		return nil, fmt.Errorf("building the tests of %s: %w\n%s", p.path, err, out)
	}
	list := exec.CommandContext(ctx, binary, "-test.list", ".") //nolint:gosec // just built
	list.Dir = filepath.FromSlash(p.path)
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the tests of %s: %w", p.path, err)
	}
	skip, err := regexp.Compile(cmp.Or(s.skip, "^$"))
	if err != nil {
		return nil, fmt.Errorf("-skip: %w", err)
	}
	names := slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool {
		return skip.MatchString(name) || !s.part.hasTest(p.path, name)
	})
	for i, part := range deal(names, seconds[p.path], p.shards) {
		args := []string{"-test.paniconexit0", "-test.timeout", timeout, "-test.run", "^(" + strings.Join(part, "|") + ")$"}
		cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // just built
		cmd.Dir = list.Dir
		all = append(all, process{fmt.Sprintf("%s %d/%d", p.path, i+1, p.shards), cmd})
	}
	return all, nil
}

// deal deals names out to at most n parts that take about as long: the longest first, each to the part that takes least so far.
// A name that is not in longest counts as one second.
func deal(names []string, longest map[string]int, n int) [][]string {
	takes := func(name string) int { return cmp.Or(longest[name], 1) }
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return takes(b) - takes(a) })
	parts, sums := make([][]string, n), make([]int, n)
	for _, name := range names {
		least := slices.Index(sums, slices.Min(sums))
		parts[least], sums[least] = append(parts[least], name), sums[least]+takes(name)
	}
	return slices.DeleteFunc(parts, func(part []string) bool { return len(part) == 0 })
}
