package integration

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
)

// TestARefusedProcessTakesNoPartitions: the user of a process may not read the partitions. It ends, as it does on a
// queue without partitions, and the other process has all of them.
func TestARefusedProcessTakesNoPartitions(t *testing.T) {
	t.Parallel()
	s := newShared(t, 8)
	s.consume(noChange)
	s.publish("a 1")
	s.eventually("the first message", func() bool { return len(s.seen()) == 1 })
	u := userWho(t, ".*", ".*", "^$")
	few := *u
	few.RawQuery = "channel_max=8"
	for name, at := range map[string]*url.URL{"channel_max": &few, "ACCESS_REFUSED": u} {
		c := consumer.Consumer{Queue: s.queue, Partitions: s.n, Ordered: true, Counter: s.store,
			Check:   consumer.Check{AllowDrop: true},
			Handler: func(context.Context, amqp.Delivery) error { return nil }}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		err := c.Run(ctx, consumer.Dialer(at.String(), amqp.Config{}))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Run ended with %v, want an error with %s", err, name)
		}
		stop()
	}
	for i := range 40 {
		s.publish(fmt.Sprintf("key-%d 1", i))
	}
	s.eventually("the messages of every partition", func() bool { return len(s.seen()) == 41 })

	// One that had no partition at first ends when it gets one.
	two := newShared(t, 2)
	stop := two.consume(noChange)
	two.consume(noChange)
	ready, ended := make(chan bool, 9), make(chan error, 1)
	two.eventually("both processes have their partition", func() bool {
		d, err := two.store.Admin().Dealt(t.Context(), "/", two.queue)
		return err == nil && len(d.Members) == 2 && len(d.Members[0].Partitions) == 1
	})
	idle := consumer.Consumer{Queue: two.queue, Partitions: two.n, Ordered: true, Counter: two.store,
		Check:   consumer.Check{AllowDrop: true},
		Handler: func(context.Context, amqp.Delivery) error { return nil }, Consuming: func(now bool) { ready <- now }}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { ended <- idle.Run(ctx, consumer.Dialer(u.String(), amqp.Config{})) }()
	<-ready
	stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "ACCESS_REFUSED") {
		t.Errorf("Run of a process without a partition ended with %v", err)
	}
	two.publish("a 1", "b 1", "c 1", "d 1", "e 1")
	two.eventually("the messages of both partitions", func() bool { return len(two.seen()) == 5 })
}

// TestAJoinCancelsNoHandler: a partition that goes to another process goes when its handlers have ended, however short
// the DrainTimeout is.
func TestAJoinCancelsNoHandler(t *testing.T) {
	t.Parallel()
	s := newShared(t, 2)
	var mu sync.Mutex
	running, most, cancelled := map[string]int{}, 0, 0
	goOn, log := make(chan struct{}), new(lockedBuffer)
	long := func(c *consumer.Consumer) {
		c.DrainTimeout, c.Concurrency, c.Logger = time.Millisecond, 16, slog.New(slog.NewTextHandler(log, nil))
		c.Handler = func(ctx context.Context, d amqp.Delivery) error {
			mu.Lock()
			running[d.RoutingKey]++
			most = max(most, running[d.RoutingKey])
			mu.Unlock()
			select {
			case <-ctx.Done():
				mu.Lock()
				cancelled++
				mu.Unlock()
			case <-goOn:
			}
			mu.Lock()
			running[d.RoutingKey]--
			mu.Unlock()
			s.mu.Lock()
			s.handled = append(s.handled, d.MessageId)
			s.mu.Unlock()
			return nil
		}
	}
	s.consume(long)
	s.publish("a 1", "b 1", "c 1", "d 1", "e 1", "f 1", "g 1", "h 1")
	at := func(n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return len(running) == n }
	}
	s.eventually("eight handlers", at(8))
	s.consume(long)
	s.eventually("a partition that is handed over", func() bool {
		return strings.Contains(log.String(), "goes to another process once the handlers that run have ended")
	})
	close(goOn)
	s.eventually("eight messages", func() bool { return len(s.seen()) == 8 })
	mu.Lock()
	defer mu.Unlock()
	if most > 1 || cancelled > 0 {
		t.Errorf("after a join: %d handlers of one key at the same time, %d were cancelled", most, cancelled)
	}
}
