package fleet

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/poll"
)

const (
	// stopWithin is how long a process may take to stop: its DrainTimeout, and the time that a broker which does not
	// answer adds.
	stopWithin = 30 * time.Second
	// mostRefusals is how often in a row a process may end by itself, as it does if it starts while the broker recovers.
	mostRefusals = 60
	refusalPause = 500 * time.Millisecond
)

// Fleet keeps a consumer process running in each of its seats.
type Fleet struct {
	Seats []*Seat
	Rest  time.Duration // between a process and the next one in its seat
	Fail  func(error)   // is told that the processes end by themselves

	started  atomic.Int64 // processes so far
	stopping atomic.Bool
	keepers  sync.WaitGroup
}

// Start starts a process in every seat, and another whenever one ends, until Stop.
func (f *Fleet) Start(ctx context.Context) {
	f.stopping.Store(false)
	for _, s := range f.Seats {
		f.keepers.Go(func() { f.keep(ctx, s) })
	}
}

func (f *Fleet) keep(ctx context.Context, s *Seat) {
	for refusals := 0; !f.stopping.Load(); {
		err := f.run(s)
		var exit *exec.ExitError
		switch {
		case err != nil && !errors.As(err, &exit):
			f.Fail(fmt.Errorf("a consumer process: %w", err))
			return
		case err == nil || exit.ExitCode() < 0: // stopped or killed
			refusals = 0
			pause.For(ctx, f.Rest)
			continue
		}
		if refusals++; refusals > mostRefusals {
			f.Fail(fmt.Errorf("consumer processes end by themselves: %w", err))
			return
		}
		pause.For(ctx, refusalPause)
	}
}

// run starts one process, waits for its end, and returns how it ended.
func (f *Fleet) run(s *Seat) error {
	number := int(f.started.Add(1))
	cmd, stdin, err := s.Command(number)
	if err != nil {
		return err
	}
	defer stdin.Close()
	s.mu.Lock()
	err = cmd.Start()
	s.process = cmd.Process
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("starting a consumer process: %w", err)
	}
	if f.stopping.Load() {
		_ = s.Signal(syscall.SIGTERM) // it was started while the fleet stops
	}
	err = cmd.Wait()
	if s.Exited != nil {
		s.Exited(number, err)
	}
	return err
}

// Stop terminates every process, and kills those that do not end, which it reports.
func (f *Fleet) Stop() error {
	f.stopping.Store(true)
	f.signal(syscall.SIGCONT)
	f.signal(syscall.SIGTERM)
	patience := time.AfterFunc(stopWithin, func() { f.signal(syscall.SIGKILL) })
	f.keepers.Wait()
	if !patience.Stop() {
		return fmt.Errorf("a consumer process did not stop within %v", stopWithin)
	}
	return nil
}

// Drain waits until drained returns nil, and stops the fleet, so that messages which it still held return. If ready
// counts some then, or fails, the fleet starts again. After an error, of drained or of the stop, the fleet is stopped.
func (f *Fleet) Drain(ctx context.Context, within time.Duration, drained func() error,
	ready func() (int, error)) error {
	for end := time.Now().Add(within); ; f.Start(ctx) {
		err := poll.Until(ctx, time.Until(end), "the queue to drain", drained)
		if err = errors.Join(err, f.Stop()); err != nil {
			return err
		}
		if n, err := ready(); err == nil && n == 0 {
			return nil
		}
	}
}

func (f *Fleet) signal(sig syscall.Signal) {
	for _, s := range f.Seats {
		_ = s.Signal(sig) // it may have ended
	}
}

// Close ends everything.
func (f *Fleet) Close() {
	f.stopping.Store(true)
	f.signal(syscall.SIGKILL)
	f.keepers.Wait()
	for _, s := range f.Seats {
		s.Broker.Close()
		s.Store.Close()
	}
}
