package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/integration/internal/worker"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/proxy"
)

// stopWithin is how long a consumer process may take to stop: its DrainTimeout, and what a broker that does not answer
// adds.
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

	strikes string // directory of the command, for seats that push; empty: none does
}

// seat is the place of one consumer process at a time.
type seat struct {
	program    []string // of its processes; none: this one
	push       *pusher  // nil: its processes are workers
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
	var binary string
	if slices.Contains(cfg.languages, inHTTP) {
		var err error
		if f.strikes, binary, err = buildStrikes(ctx); err != nil {
			f.close()
			return nil, err
		}
	}
	for i := range cfg.processes {
		language := cfg.languages[i%len(cfg.languages)]
		program, err := programOf(ctx, language)
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
		if err == nil && language == inHTTP {
			err = seat.pushTo(ctx, k, binary)
		}
		if err != nil {
			f.close()
			return nil, err
		}
	}
	return f, nil
}

// pushTo makes a seat one of the language http.
func (s *seat) pushTo(ctx context.Context, k *soak, binary string) (err error) {
	if s.push, err = newPusher(ctx, k.log, binary, s.broker[0].Addr(), s.store.Addr()); err != nil {
		return err
	}
	s.brokerURLs, s.storeURL = []string{k.broker.nodes[0].Through(s.push.broker.Addr())}, k.store.through(s.push.store)
	s.push.endpoint.start(ctx, k.cfg.handlerTimeout, k.fail)
	return nil
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
	cmd, stdin, err := s.command(spec)
	if err != nil {
		return err
	}
	defer stdin.Close()
	if err := s.occupy(cmd); err != nil {
		return fmt.Errorf("starting a consumer process: %w", err)
	}
	if s.push != nil {
		over, err := guard(cmd.Process)
		if err != nil {
			return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
		defer over()
	}
	if !f.next() {
		_ = s.signal(syscall.SIGTERM) // it was started while the fleet stops
	}
	err = cmd.Wait()
	s.leave()
	if s.push != nil {
		s.push.exited(number, err)
	}
	f.log.Forward(audit.Event{Kind: audit.Exited, Process: number, Err: text(err)})
	return err
}

// command returns a process to start, and what to close once it has ended.
func (s *seat) command(spec workerSpec) (*exec.Cmd, io.Closer, error) {
	if s.push != nil {
		return s.push.command(spec), io.NopCloser(nil), nil
	}
	return worker.Command(spec, s.program...)
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
	if s.push != nil && sig == syscall.SIGTERM {
		s.push.stop()
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
	if f.strikes != "" {
		_ = os.RemoveAll(f.strikes) // in the directory for temporary files
	}
	for _, s := range f.seats {
		if s.push != nil {
			s.push.close()
		}
		s.broker.Close()
		if s.store != nil {
			s.store.Close()
		}
	}
}
