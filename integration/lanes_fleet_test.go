package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/proxy"
)

// laneChild is the configuration of a consumer process of TestHoldLanes and TestHoldQueue.
type laneChild struct {
	Seat          int
	AMQP, Redis   string // through proxies
	Runs          string // the store without a proxy: counts the attempts at each message
	Prefix, Queue string
	Whole         bool // the queue has no lanes
	Ledger        string
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

// treatLanes loses, delays and doubles the steps of one process.
func treatLanes(seed uint64) func(words []string) proxy.Treatment {
	treat := laneStoreOdds.Treat(seed)
	return func(words []string) proxy.Treatment {
		if !strings.HasPrefix(strings.ToLower(words[0]), "eval") { // not the requests that open a connection
			return proxy.Treatment{}
		}
		return treat(words)
	}
}

// laneFaults report whether they found their target.
var laneFaults = []struct {
	name string
	do   func(t *testing.T, s *fleet.Seat) bool
}{
	{"SIGKILL", func(_ *testing.T, s *fleet.Seat) bool { return s.Signal(syscall.SIGKILL) == nil }},
	{"cut connection", func(_ *testing.T, s *fleet.Seat) bool { s.Broker.Cut(); return true }},
	{"SIGTERM", func(_ *testing.T, s *fleet.Seat) bool { return s.Signal(syscall.SIGTERM) == nil }},
	{"SIGKILL", func(_ *testing.T, s *fleet.Seat) bool { return s.Signal(syscall.SIGKILL) == nil }},
	{"cut store", func(_ *testing.T, s *fleet.Seat) bool { s.Store.Cut(); return true }},
	{"freeze", func(t *testing.T, s *fleet.Seat) bool {
		if s.Signal(syscall.SIGSTOP) != nil {
			return false
		}
		// until the broker has missed its heartbeats, and another consumer has taken over
		pause.For(t.Context(), 4*time.Second)
		return s.Signal(syscall.SIGCONT) == nil
	}},
}
