// Command suite runs all tests of all modules with the race detector:
//
//	go run ./integration/suite
//	go run ./integration/suite -jobs 4 -only strikes/integration
//
// Tests on real servers mostly wait, so their packages run side by side, and the longest ones as several shards: processes
// with a broker and a store of their own, each with a part of the tests. With AMQP_URL or REDIS_URL set, all tests share those
// servers, so a package is one process and the packages run one after another.
//
// It prints a line for each process, with its time and its CPU time, and the output of those that fail. The exit status is 1
// if any failed.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const timeout = "15m"

// onServers lists the packages that start servers, the longest first, and in how many shards they run.
var onServers = []struct {
	pkg    string
	shards int
}{
	{"integration", 5}, {"cmd/strikes", 3}, {"integration/internal/cluster", 2}, {"integration/servers", 2}, {"integration/bench", 1},
}

const module = "github.com/strikesmq/strikes/"

func main() {
	jobs := flag.Int("jobs", 5, "processes side by side")
	only := flag.String("only", "", "run the packages whose import path ends in `PATH`")
	race := flag.Bool("race", true, "with the race detector")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, &suite{jobs: *jobs, only: *only, race: *race})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

type suite struct {
	jobs int
	only string
	race bool
	dir  string // of the test binaries

	mu     sync.Mutex
	failed []string
}

// process is one test process.
type process struct {
	name string
	cmd  *exec.Cmd
}

func run(ctx context.Context, s *suite) (err error) {
	if s.dir, err = os.MkdirTemp("", "strikes-suite-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	all, err := s.processes(ctx)
	if err != nil {
		return err
	}
	if os.Getenv("AMQP_URL") != "" || os.Getenv("REDIS_URL") != "" {
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

// processes builds the tests on servers and lists all processes, the longest first.
func (s *suite) processes(ctx context.Context) (all []process, err error) {
	packages, err := exec.CommandContext(ctx, "go", "list", "work").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	others := strings.Fields(string(packages))
	for _, p := range onServers {
		others = slices.DeleteFunc(others, func(name string) bool { return name == module+p.pkg })
		if !strings.HasSuffix(module+p.pkg, s.only) {
			continue
		}
		shards, err := s.shards(ctx, p.pkg, p.shards)
		if err != nil {
			return nil, err
		}
		all = append(all, shards...)
	}
	others = slices.DeleteFunc(others, func(name string) bool { return !strings.HasSuffix(name, s.only) })
	if len(others) > 0 {
		rest := process{"the other packages", exec.CommandContext(ctx, "go", s.flags(append([]string{"test", "-count=1", "-timeout", timeout}, others...))...)} //nolint:gosec // the names of packages
		all = slices.Insert(all, min(1, len(all)), rest)
	}
	return all, nil
}

// flags adds -race behind the go command's verb.
func (s *suite) flags(args []string) []string {
	if s.race {
		return slices.Insert(args, 1, "-race")
	}
	return args
}

// shards builds a package's tests and deals them out.
func (s *suite) shards(ctx context.Context, pkg string, n int) (all []process, err error) {
	if os.Getenv("AMQP_URL") != "" || os.Getenv("REDIS_URL") != "" {
		n = 1
	}
	binary := filepath.Join(s.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
	build := exec.CommandContext(ctx, "go", s.flags([]string{"test", "-c", "-o", binary, module + pkg})...) //nolint:gosec // a package of ours
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the tests of %s: %w\n%s", pkg, err, out)
	}
	list := exec.CommandContext(ctx, binary, "-test.list", ".") //nolint:gosec // just built
	list.Dir = filepath.FromSlash(pkg)
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the tests of %s: %w", pkg, err)
	}
	for i, part := range deal(strings.Fields(string(names)), n) {
		cmd := exec.CommandContext(ctx, binary, "-test.paniconexit0", "-test.timeout", timeout, "-test.run", "^("+strings.Join(part, "|")+")$") //nolint:gosec // just built
		cmd.Dir = list.Dir
		all = append(all, process{fmt.Sprintf("%s %d/%d", pkg, i+1, n), cmd})
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
	p.cmd.Stdout, p.cmd.Stderr = &out, &out
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
