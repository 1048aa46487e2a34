package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/integration/internal/worker"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/proxy"
)

// stopWithin is how long a consumer process may take to stop: its DrainTimeout, and what a broker that does not answer adds.
const stopWithin = 30 * time.Second

// fleet keeps a number of consumer processes running, each with proxies of its own.
type fleet struct {
	spec  workerSpec // what all have in common
	log   *audit.Log
	seats []*seat

	mu       sync.Mutex
	started  int // processes so far
	stopping bool
	keepers  sync.WaitGroup
	fail     func(error) // ends the soak
}

// seat is the place of one consumer process at a time.
type seat struct {
	program    []string // of its processes; none: this one
	broker     links
	store      *proxy.Proxy // nil: it is a Cluster
	brokerURLs []string
	storeURL   string

	mu      sync.Mutex
	process *os.Process // nil: none runs
}

func newFleet(ctx context.Context, k *soak) (*fleet, error) {
	cfg := k.cfg
	f := &fleet{log: k.log, fail: k.fail, spec: workerSpec{
		Queue: queue, History: k.history, Concurrency: cfg.concurrency, Prefetch: cfg.prefetch, MaxRetries: cfg.maxRetries,
		HandlerTimeout: cfg.handlerTimeout, ConsumerTimeout: consumerTimeout, Heartbeat: heartbeat,
		FirstBackoff: firstBackoff, MostBackoff: mostBackoff, Ordered: cfg.ordered, Lanes: cfg.lanes, Verbose: cfg.verbose,
	}}
	if cfg.ordered {
		f.spec.FirstBackoff, f.spec.MostBackoff = time.Millisecond, 5*time.Millisecond
	}
	treat := cfg.treat()
	for i := range cfg.processes {
		program, err := programOf(ctx, cfg.languages[i%len(cfg.languages)])
		if err != nil {
			f.close()
			return nil, err
		}
		seat := &seat{program: program}
		f.seats = append(f.seats, seat)
		if seat.broker, err = newLinks(ctx, k.broker); err == nil {
			seat.store, err = k.store.newProxy(ctx, treat)
		}
		seat.brokerURLs, seat.storeURL = seat.broker.urls(k.broker), k.store.through(seat.store)
		if err != nil {
			f.close()
			return nil, err
		}
	}
	return f, nil
}

// mostRefusals is how often in a row a process may end by itself, as it does when it starts while the broker recovers.
const mostRefusals = 60

// start starts a process in every seat, and another whenever one ends, until stop.
func (f *fleet) start(ctx context.Context) {
	f.mu.Lock()
	f.stopping = false
	f.mu.Unlock()
	for _, s := range f.seats {
		f.keepers.Go(func() { f.keep(ctx, s) })
	}
}

func (f *fleet) keep(ctx context.Context, s *seat) {
	refusals := 0
	for f.next() {
		err := f.run(s)
		var exit *exec.ExitError
		switch {
		case err != nil && !errors.As(err, &exit):
			f.fail(fmt.Errorf("a consumer process: %w", err))
			return
		case err == nil || exit.ExitCode() < 0: // stopped or killed
			refusals = 0
			continue
		}
		if refusals++; refusals > mostRefusals {
			f.fail(fmt.Errorf("consumer processes end by themselves: %w", err))
			return
		}
		pause.For(ctx, 500*time.Millisecond)
	}
}

func (f *fleet) next() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.stopping
}

// run starts one process, waits for its end, and returns how it ended.
func (f *fleet) run(s *seat) error {
	f.mu.Lock()
	f.started++
	number := f.started
	f.mu.Unlock()
	spec := f.spec
	spec.Number, spec.AMQP, spec.Redis = number, s.brokerURLs, s.storeURL
	cmd, stdin, err := worker.Command(spec, s.program...)
	if err != nil {
		return err
	}
	defer stdin.Close()
	if err := s.occupy(cmd); err != nil {
		return fmt.Errorf("starting a consumer process: %w", err)
	}
	if !f.next() {
		_ = s.signal(syscall.SIGTERM) // it was started while the fleet stops
	}
	err = cmd.Wait()
	s.leave()
	f.log.Forward(audit.Event{Kind: audit.Exited, Process: number, Err: text(err)})
	return err
}

func (s *seat) occupy(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := cmd.Start()
	s.process = cmd.Process
	return err
}

func (s *seat) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = nil
}

var errNoProcess = errors.New("no process in this seat")

func (s *seat) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return errNoProcess
	}
	err := s.process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) { // and leave is still to be called
		return errNoProcess
	}
	return err
}

// stop terminates every process, and kills those that do not end, which it reports.
func (f *fleet) stop() error {
	f.mu.Lock()
	f.stopping = true
	f.mu.Unlock()
	f.signal(syscall.SIGCONT)
	f.signal(syscall.SIGTERM)
	ended := make(chan struct{})
	go func() { f.keepers.Wait(); close(ended) }()
	patience := time.NewTimer(stopWithin)
	defer patience.Stop()
	select {
	case <-ended:
		return nil
	case <-patience.C:
	}
	f.signal(syscall.SIGKILL)
	<-ended
	return fmt.Errorf("a consumer process did not stop within %v", stopWithin)
}

func (f *fleet) signal(sig syscall.Signal) {
	for _, s := range f.seats {
		_ = s.signal(sig) // errNoProcess, or it has just ended
	}
}

// close ends everything.
func (f *fleet) close() {
	f.mu.Lock()
	f.stopping = true
	f.mu.Unlock()
	f.signal(syscall.SIGKILL)
	f.keepers.Wait()
	for _, s := range f.seats {
		s.broker.Close()
		if s.store != nil {
			s.store.Close()
		}
	}
}
