package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

const (
	mostAgain  = 5 // failed tests of a process, beyond which something is broken
	timesAgain = 3
)

var (
	failedTest    = regexp.MustCompile(`(?m)^--- FAIL: (\w+) \(`)
	failedPackage = regexp.MustCompile(`(?m)^FAIL\t(\S+)\t`)
	broken        = regexp.MustCompile(`(?m)^(panic|fatal error|goleak|signal): |WARNING: DATA RACE|\[build failed\]`)
)

// toRunAgain returns the tests that failed, and the packages if go test names them. It returns nothing for a panic, a data race, leaked
// goroutines, tests that were not built, and where more tests failed than a busy machine explains.
func toRunAgain(out string) (tests, packages []string) {
	for _, m := range failedTest.FindAllStringSubmatch(out, -1) {
		tests = append(tests, m[1])
	}
	for _, m := range failedPackage.FindAllStringSubmatch(out, -1) {
		packages = append(packages, m[1])
	}
	slices.Sort(tests)
	tests = slices.Compact(tests)
	if len(tests) > mostAgain || broken.MatchString(out) {
		return nil, nil
	}
	return tests, packages
}

// runAgain runs the failed tests of a process three times, with no other process beside it, and reports whether all passed. Such a test
// depends on time: it is shown, so that it is mended, and fails no other change.
func (s *suite) runAgain(ctx context.Context, f failure) bool {
	tests, packages := toRunAgain(f.out)
	if len(tests) == 0 || f.binary == "" && len(packages) == 0 || ctx.Err() != nil {
		return false
	}
	which := "^(" + strings.Join(tests, "|") + ")$"
	var out bytes.Buffer
	var cmd *exec.Cmd
	if f.binary != "" {
		cmd = exec.CommandContext(ctx, f.binary, "-test.paniconexit0", "-test.timeout", timeout, fmt.Sprint("-test.count=", timesAgain), "-test.run", which) //nolint:gosec // just built
		cmd.Dir = f.cmd.Dir
	} else {
		args := s.goTest(fmt.Sprint("-count=", timesAgain), "-timeout", timeout, "-run", which)
		cmd = exec.CommandContext(ctx, "go", append(args, packages...)...) //nolint:gosec // the names of packages
	}
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, &out, &out
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(os.Stdout, "FAIL  %s, alone: %s\n%s\n", f.name, strings.Join(tests, ", "), bytes.TrimSpace(out.Bytes()))
		return false
	}
	fmt.Fprintf(os.Stdout, "FLAKY %s: %s failed beside other tests, and passed alone, %d times\n", f.name, strings.Join(tests, ", "), timesAgain)
	return true
}
