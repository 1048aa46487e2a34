// Command suite runs all tests of all modules with the race detector:
//
//	go run ./integration/suite
//	go run ./integration/suite -only integration,integration/bench -skip '^TestStore'
//
// The slow packages run side by side, the slowest ones as several shards: processes with a part of the tests each. All
// processes share one broker, which is started unless AMQP_URL is set. Each starts a store of its own. With REDIS_URL
// set they share that one, and run one after another.
//
// It prints a line for each process, with its time and its CPU time, and the output of those that fail. The exit status is 1
// if any failed.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/internal/servers"
)

const timeout = "15m"

// slow lists the packages that run side by side, the longest first, and in how many shards.
var slow = []slowPackage{
	{"integration", 8}, {"cmd/strikes", 4}, {"integration/internal/cluster", 2}, {"counter", 1}, {"consumer", 2},
	{"integration/servers", 2}, {"examples", 1}, {"integration/release", 1}, {"integration/figures", 1}, {"integration/console", 1},
	{"integration/bench", 1},
}

type slowPackage struct {
	path   string
	shards int
}

const module = "github.com/strikesmq/strikes/"

func main() {
	s := &suite{}
	flag.IntVar(&s.jobs, "jobs", 4, "processes side by side")
	flag.StringVar(&s.only, "only", "", "run `PACKAGES`, separated by commas: paths in the repository")
	flag.StringVar(&s.skip, "skip", "", "skip the tests that match `REGEXP`")
	flag.BoolVar(&s.race, "race", true, "with the race detector")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := s.runAll(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

type suite struct {
	jobs       int
	only, skip string
	race       bool
	dir        string // of the test binaries
	env        []string

	mu     sync.Mutex
	failed []string
}

// process is one test process.
type process struct {
	name string
	cmd  *exec.Cmd
}

func (s *suite) runAll(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "strikes-suite-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	if err := os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath")); err != nil { // all clones share what is built
		return err
	}
	s.env = append(os.Environ(), "GORACE="+cmp.Or(os.Getenv("GORACE"), "atexit_sleep_ms=0")) // else each process sleeps for a second
	if os.Getenv("AMQP_URL") == "" {
		broker, err := servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{Management: true})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, broker.Close()) }()
		s.env = append(s.env, "AMQP_URL="+broker.URL, "STRIKES_MANAGEMENT_URL="+broker.ManagementURL)
	}
	all, err := s.processes(ctx)
	if err != nil {
		return err
	}
	if os.Getenv("REDIS_URL") != "" {
		s.jobs = 1
	}
	free := make(chan struct{}, s.jobs)
	var running sync.WaitGroup
	for _, p := range all {
		free <- struct{}{}
		running.Go(func() {
			s.run(p)
			<-free
		})
	}
	running.Wait()
	if len(s.failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(s.failed, ", "))
	}
	return ctx.Err()
}

// processes builds the tests of the slow packages and lists all processes.
func (s *suite) processes(ctx context.Context) (all []process, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "work").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	others := slices.DeleteFunc(strings.Fields(string(out)), func(pkg string) bool { return !s.chosen(pkg) })
	packages := slices.DeleteFunc(slices.Clone(slow), func(p slowPackage) bool { return !s.chosen(module + p.path) })
	if err := s.build(ctx, packages); err != nil {
		return nil, err
	}
	for _, p := range packages {
		others = slices.DeleteFunc(others, func(pkg string) bool { return pkg == module+p.path })
		shards, err := s.shards(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, shards...)
	}
	if len(others) > 0 {
		args := append(s.goTest("-count=1", "-timeout", timeout), s.skipping("-skip")...)
		rest := process{"the other packages", exec.CommandContext(ctx, "go", append(args, others...)...)} //nolint:gosec // the names of packages
		all = slices.Insert(all, min(1, len(all)), rest)
	}
	return all, nil
}

// chosen reports whether -only has the package.
func (s *suite) chosen(pkg string) bool {
	return s.only == "" || slices.Contains(strings.Split(s.only, ","), strings.TrimPrefix(pkg, module))
}

// goTest begins a command that builds tests, without debug information: linking takes half as long. go vet is a step of
// its own in .ci/run.
func (s *suite) goTest(args ...string) []string {
	return append([]string{"test", "-vet=off", "-ldflags=-s -w", fmt.Sprint("-race=", s.race)}, args...)
}

func (s *suite) skipping(flag string) []string {
	if s.skip == "" {
		return nil
	}
	return []string{flag, s.skip}
}

// build builds the tests of packages in one go.
func (s *suite) build(ctx context.Context, packages []slowPackage) error {
	if len(packages) == 0 {
		return nil
	}
	args := s.goTest("-c", "-o", s.dir+string(filepath.Separator))
	for _, p := range packages {
		args = append(args, module+p.path)
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil { //nolint:gosec // packages of ours
		return fmt.Errorf("building the tests: %w\n%s", err, out)
	}
	return nil
}

// shards deals out the tests of a package.
func (s *suite) shards(ctx context.Context, p slowPackage) (all []process, err error) {
	binary := filepath.Join(s.dir, path.Base(p.path)+".test")
	list := exec.CommandContext(ctx, binary, "-test.list", ".") //nolint:gosec // just built
	list.Dir = filepath.FromSlash(p.path)
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the tests of %s: %w", p.path, err)
	}
	for i, part := range deal(strings.Fields(string(names)), p.shards) {
		args := []string{"-test.paniconexit0", "-test.timeout", timeout, "-test.run", "^(" + strings.Join(part, "|") + ")$"}
		cmd := exec.CommandContext(ctx, binary, append(args, s.skipping("-test.skip")...)...) //nolint:gosec // just built
		cmd.Dir = list.Dir
		all = append(all, process{fmt.Sprintf("%s %d/%d", p.path, i+1, p.shards), cmd})
	}
	return all, nil
}

// deal deals names out to n parts, so that neighbours, which are about as long, are apart.
func deal(names []string, n int) [][]string {
	parts := make([][]string, n)
	for i, name := range names {
		parts[i%n] = append(parts[i%n], name)
	}
	return slices.DeleteFunc(parts, func(part []string) bool { return len(part) == 0 })
}

// run runs one process and prints what became of it.
func (s *suite) run(p process) {
	var out bytes.Buffer
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = s.env, &out, &out
	p.cmd.Cancel, p.cmd.WaitDelay = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }, 10*time.Second
	began := time.Now()
	err := p.cmd.Run()
	result, used := "ok  ", time.Duration(0)
	if state := p.cmd.ProcessState; state != nil {
		used = state.UserTime() + state.SystemTime()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		result = "FAIL"
		s.failed = append(s.failed, p.name)
	}
	fmt.Fprintf(os.Stdout, "%s  %-32s %6.1fs, %.1fs of CPU\n", result, p.name, time.Since(began).Seconds(), used.Seconds())
	if err != nil {
		fmt.Fprintf(os.Stdout, "%s\n%s: %v\n", bytes.TrimSpace(out.Bytes()), p.name, err)
	}
}
