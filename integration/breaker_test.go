package integration

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
)

// dependency is the service that the handlers of a fleet call. Poison fails with it and without it.
type dependency struct {
	away atomic.Bool

	mu        sync.Mutex
	back      time.Time // when it came back
	succeeded map[string]time.Time
	attempts  int
}

var errAway = errors.New("dial tcp 10.0.0.7:5432: connect: connection refused")

func (x *dependency) handle(_ context.Context, d amqp.Delivery) error {
	time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the work
	x.mu.Lock()
	defer x.mu.Unlock()
	x.attempts++
	switch {
	case x.away.Load():
		return errAway
	case strings.HasPrefix(d.MessageId, "poison"):
		return errPoison
	}
	x.succeeded[d.MessageId] = time.Now()
	return nil
}

// done returns how many good messages have succeeded.
func (x *dependency) done() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.succeeded)
}

// TestOutage: a service that three consumers need is away, and 40 messages that always fail fill all they have
// prefetched. No good message is dead-lettered, every other one after exactly four counted attempts, and all goes on
// once the service is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	const poison, good, away = 40, 500, 7 * time.Second
	eachType(t, func(t *testing.T, queue string) {
		publish(t, queue, "poison", poison)
		publish(t, queue, "good", good)
		x := &dependency{succeeded: map[string]time.Time{}}
		x.away.Store(true)
		c := counters(t)
		for range 3 {
			start(t, consumer.Consumer{Queue: queue, Counter: c, Prefetch: 10, Breaker: 8, Handler: x.handle})
		}
		awaitBreaker(t, c, queue, func(b counter.Breaker) bool { return !b.Open.IsZero() })
		time.Sleep(away) //nolint:forbidigo // the outage
		x.mu.Lock()
		during := x.attempts
		x.back = time.Now()
		x.away.Store(false)
		x.mu.Unlock()

		deadline := time.Now().Add(40 * time.Second)
		for (x.done() < good || queueDepth(t, queue+".dlq") < poison) && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
		}
		first := time.Hour
		for _, at := range x.succeeded {
			first = min(first, at.Sub(x.back))
		}
		t.Logf("%d attempts while it was away; the first success %v after it came back; all %v after it", during,
			first.Round(10*time.Millisecond), time.Since(x.back).Round(10*time.Millisecond))
		if n := x.done(); n != good {
			t.Errorf("%d of %d good messages succeeded", n, good)
		}
		if first > 10*time.Second {
			t.Errorf("the first success came %v after the dependency", first)
		}
		dead := ids(getAll(t, queue+".dlq"))
		if len(dead) != poison {
			t.Errorf("%d dead letters, want %d", len(dead), poison)
		}
		for _, id := range dead {
			if !strings.HasPrefix(id, "poison") {
				t.Errorf("%s is dead-lettered", id)
			}
			if r := one(t, c, queue, id); r.Counted() != 4 {
				t.Errorf("%s: %d attempts were counted", id, r.Counted())
			}
		}
	})
}

// awaitBreaker waits until the breaker of a queue is as wanted.
func awaitBreaker(t *testing.T, c *counter.Counter, queue string, wanted func(counter.Breaker) bool) counter.Breaker {
	t.Helper()
	var b counter.BreakerState
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		var err error
		if b, err = c.Admin().Breaker(t.Context(), "/", queue); err != nil {
			t.Fatal(err)
		}
		if wanted(b.Breaker) {
			return b.Breaker
		}
	}
	t.Fatalf("the breaker of %s is %+v", queue, b)
	return b.Breaker
}
