package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/integration/internal/node"
	"github.com/strikesmq/strikes/integration/internal/worker"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/proxy"
)

const (
	restartAfter = 200 * time.Millisecond // a process that died
	stopWithin   = 10 * time.Second
)

// fleet keeps consumer processes running, each with proxies of its own.
type fleet struct {
	spec  spec
	seats []*seat

	mu       sync.Mutex
	started  int
	stopping context.CancelFunc // nil: nothing runs
	keepers  sync.WaitGroup
}

// seat is the place of one process at a time.
type seat struct {
	broker, store *proxy.Proxy
	amqp, redis   string

	mu      sync.Mutex
	process *os.Process // nil: none runs
}

func newFleet(ctx context.Context, s spec, broker *node.Node, store string) (*fleet, error) {
	f := &fleet{spec: s}
	at, err := url.Parse(store)
	if err != nil {
		return nil, err
	}
	for range s.Processes {
		seat := &seat{}
		f.seats = append(f.seats, seat)
		if seat.broker, err = proxy.New(ctx, broker.Host()); err == nil {
			seat.store, err = proxy.New(ctx, at.Host)
		}
		if err != nil {
			f.close()
			return nil, err
		}
		seat.amqp = broker.Through(seat.broker.Addr())
		seat.redis = (&url.URL{Scheme: "redis", Host: seat.store.Addr(), Path: at.Path}).String()
	}
	return f, nil
}

// start starts a process in every seat, and another one whenever one ends, until stop.
func (f *fleet) start(ctx context.Context) {
	ctx, f.stopping = context.WithCancel(ctx)
	for _, s := range f.seats {
		f.keepers.Go(func() {
			for ctx.Err() == nil {
				if err := f.run(ctx, s); err != nil {
					fmt.Fprintln(os.Stderr, "compare: a consumer process:", err)
				}
				pause.For(ctx, restartAfter)
			}
		})
	}
}

// run runs one process. Its error is not about how the process ended, which is often by a fault.
func (f *fleet) run(ctx context.Context, s *seat) error {
	of := f.spec
	f.mu.Lock()
	f.started++
	of.Number = f.started
	f.mu.Unlock()
	of.AMQP, of.Redis = s.amqp, s.redis
	cmd, stdin, err := worker.Command(of)
	if err != nil {
		return err
	}
	defer stdin.Close()
	if err := s.occupy(cmd); err != nil {
		return err
	}
	if ctx.Err() != nil {
		s.signal(syscall.SIGTERM) // it was started while the fleet stops
	}
	err = cmd.Wait()
	s.leave()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
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

func (s *seat) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		_ = s.process.Signal(sig) // it may have just ended
	}
}

// stop terminates every process, and kills those that do not end in time.
func (f *fleet) stop() {
	if f.stopping == nil {
		return
	}
	f.stopping()
	f.stopping = nil
	kill := time.AfterFunc(stopWithin, func() { f.signal(syscall.SIGKILL) })
	defer kill.Stop()
	f.signal(syscall.SIGTERM)
	f.keepers.Wait()
}

func (f *fleet) signal(sig syscall.Signal) {
	for _, s := range f.seats {
		s.signal(sig)
	}
}

func (f *fleet) close() {
	f.signal(syscall.SIGKILL)
	f.stop()
	for _, s := range f.seats {
		for _, p := range []*proxy.Proxy{s.broker, s.store} {
			if p != nil {
				p.Close()
			}
		}
	}
}
