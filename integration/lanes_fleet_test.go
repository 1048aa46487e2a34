package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/proxy"
)

// laneChild is what a consumer process of TestHoldLanes and TestHoldQueue does.
type laneChild struct {
	Seat          int
	AMQP, Redis   string // through proxies
	Runs          string // the store without a proxy: counts the attempts at each message
	Prefix, Queue string
	Whole         bool // the queue has no lanes
	Ledger        string
}

func init() {
	fleet.Main(func(ctx context.Context, c laneChild) error { return c.run(ctx) })
}

const alwaysFails = 1 << 20

// failing is how many attempts at message i fail: of two attempts, and two more for each replay. The first of those
// that kill ends its process.
func failing(i int) (times int, kills bool) {
	if i%101 != 50 {
		return 0, false
	}
	kind := i / 101 % 6
	return []int{1, 2, 3, 5, alwaysFails, 1}[kind], kind == 5
}

func (c laneChild) run(ctx context.Context) (err error) {
	ledger, err := os.OpenFile(c.Ledger, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	counts, err := counter.Dial(c.Redis, &counter.Options{Prefix: c.Prefix})
	if err != nil {
		return err
	}
	opts, err := redis.ParseURL(c.Runs)
	if err != nil {
		return err
	}
	runs := redis.NewClient(opts)
	write := func(what, id string) error {
		_, err := fmt.Fprintf(ledger, "%s %d %s\n", what, c.Seat, id)
		return err
	}
	consume := consumer.Consumer{
		Queue: c.Queue, Ordered: true, HoldLanes: true, Counter: counts, Lane: laneOf, Concurrency: 16, Prefetch: 100,
		MaxRetries: 1,
		Backoff:    func(int) time.Duration { return time.Millisecond }, DrainTimeout: 5 * time.Second,
		Observer: observer(func(e consumer.Event) {
			if e.Outcome == consumer.OutcomeDeadLetter && e.Cause == counter.CauseBlocked {
				_ = write("behind", e.ID)
				return
			}
			if e.ID != "" {
				_ = write(string(e.Outcome), e.ID)
			}
		}),
		Handler: func(ctx context.Context, d amqp.Delivery) error {
			i, err := strconv.Atoi(d.MessageId)
			if err != nil {
				return err
			}
			if err := write("begin", d.MessageId); err != nil {
				return err
			}
			n, err := runs.Incr(ctx, c.Prefix+".runs."+d.MessageId).Result()
			if err != nil {
				return fmt.Errorf("counting the attempt: %w", err)
			}
			times, kills := failing(i)
			switch {
			case n <= int64(times) && kills:
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			case n <= int64(times):
				return errors.New("not yet")
			}
			return write("done", d.MessageId)
		},
	}
	if c.Whole {
		consume.Lane, consume.Concurrency, consume.Prefetch = nil, 0, 10
	}
	return consume.Run(ctx, consumer.Dialer(c.AMQP, amqp.Config{Heartbeat: time.Second}))
}

// laneStoreOdds are for the requests that consumers send to the store.
var laneStoreOdds = proxy.Odds{Lose: .01, Late: .01, Reset: .005, Double: .1, LateFrom: 100 * time.Millisecond,
	LateTo: 600 * time.Millisecond}

// laneSeat is the position of one consumer process at a time.
type laneSeat struct {
	spec          laneChild
	broker, store *proxy.Proxy

	mu       sync.Mutex
	process  *os.Process // nil: none runs
	stopping bool
}

// newLaneSeat keeps a consumer process running until the test ends.
func newLaneSeat(t *testing.T, broker *rig.Node, spec laneChild, seed uint64) *laneSeat {
	t.Helper()
	s := &laneSeat{spec: spec}
	ctx := context.WithoutCancel(t.Context())
	var err error
	s.broker, err = proxy.New(ctx, broker.Host())
	need(t, err)
	t.Cleanup(s.broker.Close)
	store, err := url.Parse(redisURL(t))
	need(t, err)
	treat := laneStoreOdds.Treat(seed)
	s.store, err = proxy.NewStore(ctx, store.Host, func(words []string) proxy.Treatment {
		if !strings.HasPrefix(strings.ToLower(words[0]), "eval") { // not the requests that open a connection
			return proxy.Treatment{}
		}
		return treat(words)
	})
	need(t, err)
	t.Cleanup(s.store.Close)
	s.spec.AMQP, s.spec.Runs = broker.Through(s.broker.Addr()), store.String()
	store.Host = s.store.Addr()
	s.spec.Redis = store.String()
	kept := make(chan error, 1)
	go func() { kept <- s.keep(ctx) }()
	t.Cleanup(func() {
		s.stop()
		if err := <-kept; err != nil {
			t.Errorf("a consumer process: %v", err)
		}
	})
	return s
}

// keep starts a process whenever the last one has ended, until stop.
func (s *laneSeat) keep(ctx context.Context) error {
	const mostFailures = 100 // in a row, as when the broker is away
	for failures := 0; failures < mostFailures; {
		cmd, stdin, err := s.start()
		if cmd == nil || err != nil {
			return err
		}
		err = cmd.Wait()
		s.leave(stdin)
		if failures++; err == nil || cmd.ProcessState.ExitCode() < 0 { // stopped or killed
			failures = 0
		}
		if failures > 0 {
			pause.For(ctx, 500*time.Millisecond)
		}
	}
	return errors.New("the processes end by themselves")
}

// start returns no command once the seat is to stop.
func (s *laneSeat) start() (*exec.Cmd, io.Closer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil, nil, nil
	}
	cmd, stdin, err := fleet.Command(s.spec)
	if err == nil {
		err = cmd.Start()
	}
	s.process = cmd.Process
	return cmd, stdin, err
}

func (s *laneSeat) leave(stdin io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = nil
	_ = stdin.Close()
}

func (s *laneSeat) signal(sig syscall.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil && s.process.Signal(sig) == nil
}

func (s *laneSeat) stop() {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.signal(syscall.SIGKILL)
}

// laneFaults report whether they found what they are about.
var laneFaults = []struct {
	name string
	do   func(t *testing.T, s *laneSeat) bool
}{
	{"SIGKILL", func(_ *testing.T, s *laneSeat) bool { return s.signal(syscall.SIGKILL) }},
	{"cut connection", func(_ *testing.T, s *laneSeat) bool { s.broker.Cut(); return true }},
	{"SIGTERM", func(_ *testing.T, s *laneSeat) bool { return s.signal(syscall.SIGTERM) }},
	{"SIGKILL", func(_ *testing.T, s *laneSeat) bool { return s.signal(syscall.SIGKILL) }},
	{"cut store", func(_ *testing.T, s *laneSeat) bool { s.store.Cut(); return true }},
	{"freeze", func(t *testing.T, s *laneSeat) bool {
		if !s.signal(syscall.SIGSTOP) {
			return false
		}
		// until the broker has missed its heartbeats, and another consumer has taken over
		pause.For(t.Context(), 4*time.Second)
		return s.signal(syscall.SIGCONT)
	}},
}
