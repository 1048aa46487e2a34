package fleet

import (
	"context"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/proxy"
)

// Seat is the place of one consumer process at a time, with proxies of its own.
type Seat struct {
	Broker *proxy.Proxy // nil: the process has none
	Store  *proxy.Proxy // nil: the process has none
	AMQP   string       // URL of the broker, through its proxy
	Redis  string       // URL of the store, through its proxy

	// Command returns a process to start, by its number, and a Closer to close once it has ended.
	Command func(number int) (*exec.Cmd, io.Closer, error)
	// Told is called before a signal is sent, also to a process that has just ended. It may be nil.
	Told func(syscall.Signal)
	// Exited is called with the number of a process, and how it ended. It may be nil.
	Exited func(number int, err error)

	mu      sync.Mutex
	process *os.Process // the newest; nil: there was none
}

// NewSeat returns a seat of a fleet, which closes it. Treat returns the treatment of a request to the store; it may be
// nil.
func (f *Fleet) NewSeat(ctx context.Context, b *rig.Broker, store *rig.Store,
	treat func(words []string) proxy.Treatment) (s *Seat, err error) {
	s = &Seat{}
	if s.Broker, err = b.NewProxy(ctx); err != nil {
		return nil, err
	}
	if s.Store, err = store.NewProxy(ctx, treat); err != nil {
		s.Broker.Close()
		return nil, err
	}
	s.AMQP, s.Redis = b.Through(s.Broker.Addr()), store.Through(s.Store.Addr())
	f.Seats = append(f.Seats, s)
	return s, nil
}

// Signal sends a signal to the process. If it has ended, the error is os.ErrProcessDone.
func (s *Seat) Signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return os.ErrProcessDone
	}
	if s.Told != nil {
		s.Told(sig)
	}
	return s.process.Signal(sig)
}
