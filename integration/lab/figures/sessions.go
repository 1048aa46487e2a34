package figures

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/publisher"
)

// sessions has consumers in this process lose their connections again and again, in the middle of handlers.
type sessions struct {
	consumers, each int
}

func (s *sessions) flags(f *flag.FlagSet) {
	f.IntVar(&s.consumers, "consumers", 100, "consumers, in this process; their sessions end together")
	f.IntVar(&s.each, "sessions", 10, "of each")
}

// sessionsMeasured is what came of it.
type sessionsMeasured struct {
	Sessions   int   `json:"sessions"`
	Cut        int   `json:"cut"`          // connections
	Hit        int   `json:"handlers_hit"` // that ran when their connection was cut
	Goroutines []int `json:"goroutines"`
	Before     int   `json:"before"` // the first session
	After      int   `json:"after"`  // the last
}

// slack is how many goroutines more may be found than at first: those of a timer or a dial that is just ending.
const slack = 5

func (s *sessions) measure(ctx context.Context, on *setup) (any, []string, error) {
	out, err := on.producer(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer out.Close()
	store, err := counter.Dial(on.store.URL, nil)
	if err != nil {
		return nil, nil, err
	}
	defer store.Close()
	if _, err := store.Check(ctx); err != nil { // so that the store's client has what it keeps, and then the producer
		return nil, nil, err
	}
	if err := on.publish(ctx, out, make([]string, s.consumers)...); err != nil {
		return nil, nil, err
	}
	m := sessionsMeasured{Before: settledGoroutines(ctx)}
	c := &cutter{url: on.broker.URL, open: map[net.Conn]bool{}}
	if err := s.all(ctx, on, c, store, out, &m); err != nil {
		return nil, nil, err
	}
	m.Sessions, m.After = c.dialled, settledGoroutines(ctx)
	return m, m.missed(s.consumers * s.each), nil
}

// all runs the consumers through their sessions.
func (s *sessions) all(ctx context.Context, on *setup, c *cutter, store *counter.Counter, out *publisher.Publisher,
	m *sessionsMeasured) error {
	ctx, cancel := context.WithCancel(ctx)
	var runs sync.WaitGroup
	defer runs.Wait()
	defer cancel()
	var errs sync.Map
	for i := range s.consumers {
		one := consumer.Consumer{Queue: queue, Counter: store, Handler: c.work, Concurrency: 2, Check: unchecked}
		runs.Go(func() {
			if err := one.Run(ctx, c.dial); err != nil && ctx.Err() == nil {
				errs.Store(i, err)
			}
		})
	}
	for n := range s.each {
		if err := s.attached(ctx, on); err != nil {
			return errors.Join(err, first(&errs))
		}
		m.Goroutines = append(m.Goroutines, settledGoroutines(ctx))
		on.say("session %d of %d of each: %d goroutines", n+1, s.each, m.Goroutines[n])
		if n == s.each-1 {
			break
		}
		if err := on.publish(ctx, out, make([]string, 10*s.consumers)...); err != nil {
			return err
		}
		if err := c.busy(ctx, s.consumers); err != nil {
			return err
		}
		m.Hit += int(c.running.Load())
		m.Cut += c.cut()
	}
	return nil
}

func first(errs *sync.Map) (err error) {
	errs.Range(func(_, v any) bool {
		err, _ = v.(error)
		return false
	})
	return err
}

// unchecked spares a hundred consumers the check of their topology, which costs several channels each.
var unchecked = consumer.Check{Instead: func(context.Context, *amqp.Connection) error { return nil }}

// work is a handler.
func (c *cutter) work(ctx context.Context, _ amqp.Delivery) error {
	c.running.Add(1)
	defer c.running.Add(-1)
	if !pause.For(ctx, 100*time.Millisecond) {
		return ctx.Err()
	}
	return nil
}

// busy waits until so many handlers run.
func (c *cutter) busy(ctx context.Context, n int) error {
	return poll.Until(ctx, time.Minute, "handlers to run", func() error {
		if running := int(c.running.Load()); running < n {
			return fmt.Errorf("%d run", running)
		}
		return nil
	})
}

// attached waits until every consumer has a session and all messages are handled.
func (s *sessions) attached(ctx context.Context, on *setup) error {
	return poll.Until(ctx, 2*time.Minute, "every consumer to have a session, and the queue to be empty", func() error {
		q, err := on.broker.Queue(queue)
		if err == nil && (q.Consumers != s.consumers || q.Messages > 0) {
			err = fmt.Errorf("%d consumers, %d messages", q.Consumers, q.Messages)
		}
		return err
	})
}

// settledGoroutines counts them once their number has not changed for a while.
func settledGoroutines(ctx context.Context) int {
	last, steady := 0, 0
	for steady < 5 && pause.For(ctx, 200*time.Millisecond) {
		if n := runtime.NumGoroutine(); n == last {
			steady++
		} else {
			last, steady = n, 0
		}
	}
	return last
}

func (m sessionsMeasured) missed(want int) (missed []string) {
	if m.Sessions < want {
		missed = append(missed, fmt.Sprintf("%d sessions of %d", m.Sessions, want))
	}
	if n := slices.Max(m.Goroutines) - m.Goroutines[0]; n > slack {
		missed = append(missed, fmt.Sprintf("%d goroutines more than in the first session", n))
	}
	if n := m.After - m.Before; n > slack {
		missed = append(missed, fmt.Sprintf("%d goroutines left", n))
	}
	return missed
}

// cutter dials for the consumers, and cuts what it dialled.
type cutter struct {
	url     string
	running atomic.Int64 // handlers

	mu      sync.Mutex
	open    map[net.Conn]bool
	dialled int
}

func (c *cutter) dial(ctx context.Context) (*amqp.Connection, error) {
	return consumer.Dialer(c.url, amqp.Config{Heartbeat: heartbeat, Dial: func(network, addr string) (net.Conn, error) {
		conn, err := amqp.DefaultDial(10*time.Second)(network, addr)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[conn] = true
		c.dialled++
		return conn, nil
	}})(ctx)
}

// cut closes every connection under its consumer, and returns how many there were.
func (c *cutter) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.open)
	for conn := range c.open {
		_ = conn.Close()
		delete(c.open, conn)
	}
	return n
}
