package fleet

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/proxy"
)

// Seat is the place of one consumer process at a time, with proxies of its own.
type Seat struct {
	Broker Links
	Store  *proxy.Proxy // nil: it is a Cluster
	AMQP   []string     // URLs of the broker's nodes, through the proxies
	Redis  string       // URL of the store, through its proxy

	// Command returns a process to start, by its number, and what to close once it has ended.
	Command func(number int) (*exec.Cmd, io.Closer, error)
	// Started is called with a process. What it returns is called once that has ended. It may be nil.
	Started func(*os.Process) (over func(), err error)
	// Told is called before a process gets a signal. It may be nil.
	Told func(syscall.Signal)
	// Exited is called with the number of a process, and how it ended. It may be nil.
	Exited func(number int, err error)

	mu      sync.Mutex
	process *os.Process // nil: none runs
}

// NewSeat returns a seat of a fleet, which closes it. Treat says what happens to requests to the store; it may be nil.
func (f *Fleet) NewSeat(ctx context.Context, b *rig.Broker, store *rig.Store,
	treat func(words []string) proxy.Treatment) (s *Seat, err error) {
	s = &Seat{}
	if s.Broker, err = NewLinks(ctx, b); err != nil {
		return nil, err
	}
	if s.Store, err = store.NewProxy(ctx, treat); err != nil {
		s.Broker.Close()
		return nil, err
	}
	s.AMQP, s.Redis = s.Broker.URLs(b), store.Through(s.Store)
	f.Seats = append(f.Seats, s)
	return s, nil
}

// ErrNoProcess says that no process is in the seat.
var ErrNoProcess = errors.New("no process in this seat")

// Signal sends a signal to the process.
func (s *Seat) Signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return ErrNoProcess
	}
	if s.Told != nil {
		s.Told(sig)
	}
	err := s.process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) { // and leave is still to be called
		return ErrNoProcess
	}
	return err
}

func (s *Seat) occupy(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := cmd.Start()
	s.process = cmd.Process
	return err
}

func (s *Seat) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = nil
}

// Links are how one client reaches the broker: a proxy for each node.
type Links []*proxy.Proxy

// NewLinks starts the proxies.
func NewLinks(ctx context.Context, b *rig.Broker) (l Links, err error) {
	for _, n := range b.Nodes {
		p, err := proxy.New(ctx, n.Host())
		if err != nil {
			l.Close()
			return nil, err
		}
		l = append(l, p)
	}
	return l, nil
}

// URLs are those of the nodes with the proxies' addresses in them.
func (l Links) URLs(b *rig.Broker) (all []string) {
	for i, p := range l {
		all = append(all, b.Nodes[i].Through(p.Addr()))
	}
	return all
}

// Cut cuts all connections.
func (l Links) Cut() { l.each((*proxy.Proxy).Cut) }

// Halve closes the broker's side of all connections.
func (l Links) Halve() { l.each((*proxy.Proxy).Halve) }

// Mute drops what the broker says, until it is turned off.
func (l Links) Mute(on bool) { l.each(func(p *proxy.Proxy) { p.Mute(on) }) }

// Delay holds up each chunk.
func (l Links) Delay(d time.Duration) { l.each(func(p *proxy.Proxy) { p.Delay(d) }) }

// Close ends the proxies.
func (l Links) Close() { l.each((*proxy.Proxy).Close) }

func (l Links) each(do func(*proxy.Proxy)) {
	for _, p := range l {
		do(p)
	}
}

// Dialler dials nodes in turn: the next one after each that refuses, or that loses the connection. It is for one
// goroutine at a time.
type Dialler struct {
	URLs   []string
	Dialer func(url string, config amqp.Config) func(context.Context) (*amqp.Connection, error)
	Next   int // the node to dial first
}

// Dial opens a connection.
func (d *Dialler) Dial(ctx context.Context, config amqp.Config) (*amqp.Connection, error) {
	var errs []error
	for range d.URLs {
		url := d.URLs[d.Next%len(d.URLs)]
		d.Next++
		conn, err := d.Dialer(url, config)(ctx)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
