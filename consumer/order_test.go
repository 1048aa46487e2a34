package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/pause"
)

// orderly runs an ordered session on messages m0, m1 and so on, and returns the ids in the order in which handlers
// ended: "m0" for a success, "m0!" for a failure.
type orderly struct {
	bench
	mu   sync.Mutex
	runs []string
}

func (o *orderly) handler(does func(id string, run int) (time.Duration, error)) Handler {
	counts := map[string]int{}
	return func(ctx context.Context, d amqp.Delivery) error {
		o.mu.Lock()
		counts[d.MessageId]++
		takes, err := does(d.MessageId, counts[d.MessageId])
		o.mu.Unlock()
		if !pause.For(ctx, takes) {
			return context.Cause(ctx)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.runs = append(o.runs, d.MessageId+map[bool]string{true: "!"}[err != nil])
		return err
	}
}

// serve runs the session for d, or until it ends by itself.
func (o *orderly) serve(t *testing.T, d time.Duration, c Consumer, n int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	c.Ordered, c.DrainTimeout = true, time.Hour
	o.Retry = c.withDefaults().Retry
	return errOf(served(ctx, o.bench, c, n))
}

// TestLaneWaitsForNoTimer shows that the message behind a dead letter in its lane runs as soon as the nack is sent.
// That nack is sent immediately. Acks and dead letters that no message waits for go together.
func TestLaneWaitsForNoTimer(t *testing.T) {
	for _, tc := range []struct {
		name string
		lane func(amqp.Delivery) string
		want string // settlements
	}{
		{"one lane", nil, "ack multiple=false, nack requeue=false, ack multiple=false, nack requeue=false, ack " +
			"multiple=true"},
		{
			"a lane for each message", func(d amqp.Delivery) string { return d.MessageId },
			"nack requeue=false, nack requeue=false, ack multiple=true",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &orderly{bench: newBench()}
				began, waited := time.Now(), time.Duration(0)
				handle := o.handler(func(id string, _ int) (time.Duration, error) {
					if id == "m1" || id == "m3" {
						return 0, Reject(errBoom)
					}
					return 0, nil
				})
				c := Consumer{Lane: tc.lane, Handler: func(ctx context.Context, d amqp.Delivery) error {
					if tc.lane == nil && d.MessageId == "m0" { // until the others wait for it
						time.Sleep(time.Second)
						began = time.Now()
					}
					waited = time.Since(began)
					return handle(ctx, d)
				}}
				if err := o.serve(t, time.Minute, c, 6); err != nil {
					t.Error(err)
				}
				if got := strings.Join(o.runs, " "); got != "m0 m1! m2 m3! m4 m5" || waited > 0 {
					t.Errorf("the last of %s ran after %v", got, waited)
				}
				if got := o.acks.String(); got != tc.want {
					t.Errorf("settled: %s, want %s", got, tc.want)
				}
			})
		})
	}
}

// TestOrderedStopsAtOneThatIsLeft shows that nothing overtakes a message which goes back to the queue with its session.
func TestOrderedStopsAtOneThatIsLeft(t *testing.T) {
	for _, tc := range []struct {
		name string
		does func(o *orderly) func(id string, run int) (time.Duration, error)
		want error
	}{
		{
			"its wait is longer than it may be held",
			func(*orderly) func(string, int) (time.Duration, error) {
				return func(string, int) (time.Duration, error) { return 0, RetryAfter(errBoom, time.Hour) }
			}, errOverdue,
		},
		{
			"the store is away for too long",
			func(o *orderly) func(string, int) (time.Duration, error) {
				return func(string, int) (time.Duration, error) { o.store.down.Store(true); return 0, errBoom }
			}, ErrWaitedTooLong,
		},
		{
			"its nack cannot be sent",
			func(o *orderly) func(string, int) (time.Duration, error) {
				return func(string, int) (time.Duration, error) { o.acks.fail = amqp.ErrClosed; return 0, Reject(errBoom) }
			}, ErrSettlement,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &orderly{bench: newBench()}
				err := o.serve(t, 2*time.Hour, Consumer{Handler: o.handler(tc.does(o))}, 4)
				if !errors.Is(err, tc.want) {
					t.Errorf("the session ended with %v, want %v", err, tc.want)
				}
				if slices.ContainsFunc(o.runs, func(run string) bool { return run != "m0!" }) || len(o.runs) == 0 {
					t.Errorf("runs: %v, want only m0, which never succeeded", o.runs)
				}
				if len(o.acks.got) > 0 {
					t.Errorf("settled: %v", o.acks.got)
				}
			})
		})
	}
}

func TestPrefetchThatOrderCallsFor(t *testing.T) {
	byID := func(d amqp.Delivery) string { return d.MessageId }
	for name, tc := range map[string]struct {
		consumer Consumer
		prefetch int
		retry    RetryMode
	}{
		"not ordered":           {Consumer{}, 10, RetryRequeue},
		"in place":              {Consumer{Ordered: true}, 30, RetryInPlace},
		"requeue":               {Consumer{Ordered: true, Retry: RetryRequeue}, 1, RetryRequeue},
		"lanes":                 {Consumer{Ordered: true, Lane: byID, Concurrency: 4}, 30, RetryInPlace},
		"many lanes":            {Consumer{Ordered: true, Lane: byID, Concurrency: 50}, 100, RetryInPlace},
		"as many as are wanted": {Consumer{Ordered: true, Prefetch: 100}, 100, RetryInPlace},
	} {
		if got := tc.consumer.withDefaults(); got.Prefetch != tc.prefetch || got.Retry != tc.retry {
			t.Errorf("%s: prefetch %d, retry %d", name, got.Prefetch, got.Retry)
		}
	}
}

func TestLaneThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &orderly{bench: newBench()}
		c := Consumer{
			Lane:    func(amqp.Delivery) string { panic("no lane") },
			Handler: o.handler(func(string, int) (time.Duration, error) { return 0, nil }),
		}
		if err := o.serve(t, time.Minute, c, 3); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(o.runs); got != "[m0 m1 m2]" {
			t.Errorf("runs: %s", got)
		}
	})
}
