// Command suite runs the tests of all modules with the race detector:
//
//	go run ./integration/suite
//	go run ./integration/suite -part short
//	go run ./integration/suite -only integration,integration/bench -skip '^TestStore'
//
// The slow packages run side by side, the slowest ones as several shards: processes with a part of the tests each. They run
// while the next packages are built. Most tests wait more than they work, so there are more processes than cores. All processes
// share one broker, which is started unless AMQP_URL is set. Each starts a store of its own. With REDIS_URL
// set they share that one, and run one after another.
//
// It prints a line for each process, with its time and its CPU time, and the output of those that fail. Nothing is
// run again: a test that fails beside others has a defect, or found one. The exit status is 1 if any process failed,
// and 2 if -only names a package or
// -part a part that does not exist.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/internal/servers"
)

const timeout = "15m"

func main() {
	s := &suite{part: partAll}
	flag.IntVar(&s.jobs, "jobs", 4, "processes side by side")
	flag.StringVar(&s.only, "only", "", "run `PACKAGES`, separated by commas: paths in the repository")
	flag.Func("part", "run this `PART` of the tests: short, long or all (the default)", func(text string) error {
		s.part = part(text)
		if !slices.Contains([]part{partAll, partShort, partLong}, s.part) {
			return errors.New("the parts are short, long and all")
		}
		return nil
	})
	flag.StringVar(&s.skip, "skip", "", "skip the tests that match `REGEXP`")
	flag.BoolVar(&s.race, "race", true, "with the race detector")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := s.runAll(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		var usage usageError
		if errors.As(err, &usage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

type suite struct {
	jobs       int
	only, skip string
	part       part
	race       bool
	dir        string // of the test binaries
	env        []string

	mu     sync.Mutex
	failed []string // names of processes
}

func (s *suite) runAll(ctx context.Context) (err error) {
	names, err := workspace(ctx)
	if err != nil {
		return err
	}
	if err := checkNames(s.only, names); err != nil {
		return err
	}
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
	if os.Getenv("REDIS_URL") != "" {
		s.jobs = 1
	}
	var all errgroup.Group
	queue := make(chan process)
	all.Go(func() error { return s.processes(ctx, names, queue) })
	for range s.jobs {
		all.Go(func() error {
			for p := range queue {
				s.run(p)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	if len(s.failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(s.failed, ", "))
	}
	return ctx.Err()
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
