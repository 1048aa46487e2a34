package integration

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/topology"
)

// TestPauseStopsEveryProcess: three processes with messages under way and messages that wait for their backoff
// stop, hold nothing and count nothing; after the resume they go on where they were.
func TestPauseStopsEveryProcess(t *testing.T) {
	const messages = 800 // a machine that does much else handles some before it pauses
	t.Parallel()
	for _, spec := range []topology.Spec{{Type: topology.Quorum}, {Type: topology.Classic, SingleActiveConsumer: true}} {
		t.Run(fmt.Sprintf("%s, single active consumer %v", spec.Type, spec.SingleActiveConsumer), func(t *testing.T) {
			t.Parallel()
			queue := declaredAs(t, spec)
			fleet, c := newChild(t, queue)
			fleet.Takes, fleet.Concurrency, fleet.Backoff, fleet.Fail = 40*time.Millisecond, 2, time.Minute, []string{"m1", "m2"}
			all := []process{fleet.spawn(t), fleet.spawn(t), fleet.spawn(t)}
			eventually(t, "three consumers", func() bool { return len(readers(t, c, queue)) == 3 })
			publish(t, queue, "m", messages)
			eventually(t, "two failures and some successes", func() bool {
				return recorded(t, c, queue, "m1") && recorded(t, c, queue, "m2") && handled(t, fleet) > 20
			})

			pauseQueue(t, c, queue, 3)
			before := handled(t, fleet)
			if before == messages {
				t.Fatal("the queue was empty before the pause")
			}
			eventually(t, "that no consumer is attached", func() bool { return consumers(t, queue) == 0 })
			time.Sleep(1500 * time.Millisecond)
			if after := handled(t, fleet); after != before {
				t.Errorf("%d attempts began during the pause", after-before)
			}
			if depth := queueDepth(t, queue); depth != messages-before+2 {
				t.Errorf("%d messages are in the queue, want the %d that were not handled and the two that failed", depth,
					messages-before)
			}
			for _, id := range fleet.Fail {
				if r := one(t, c, queue, id); r.Counted() != 1 {
					t.Errorf("the pause counted against %s: %+v", id, r)
				}
			}

			need(t, c.Admin().Resume(t.Context(), "/", queue, counter.Note{By: "jo"}))
			eventually(t, "every message handled", func() bool {
				return queueDepth(t, queue) == 0 && handled(t, fleet) >= messages
			})
			if n := handled(t, fleet); n != messages {
				t.Errorf("%d attempts at %d messages", n, messages)
			}
			terminate(t, all...)
			if left := readers(t, c, queue); len(left) != 0 {
				t.Errorf("after a stop: %v", left)
			}
		})
	}
}

// handled is how many attempts began.
func handled(t *testing.T, spec child) (n int) {
	t.Helper()
	byID, _ := spec.runs(t)
	for _, runs := range byID {
		n += runs
	}
	return n
}

// readers asks again while the store is slow: the machine may be busy with other tests.
func readers(t *testing.T, c *counter.Counter, queue string) (states []counter.ConsumerState) {
	t.Helper()
	eventually(t, "a reply of the store", func() bool {
		now, err := c.Admin().State(t.Context(), "/", queue)
		states = now.Consumers
		var store *counter.StoreError
		if errors.As(err, &store) && store.Fault == counter.FaultSlow {
			return false
		}
		need(t, err)
		return true
	})
	return states
}

// pauseQueue pauses a queue and waits until n processes have stopped. They need at most two seconds if they are given a
// processor: consumer.TestPauseEndsASession checks that without a real clock.
func pauseQueue(t *testing.T, c *counter.Counter, queue string, n int) {
	t.Helper()
	began := time.Now()
	need(t, c.Admin().Pause(t.Context(), "/", queue, counter.Note{By: "jo", Why: "supplier down"}))
	eventually(t, fmt.Sprintf("that %d processes stop", n), func() bool {
		stopped := 0
		for _, s := range readers(t, c, queue) {
			if s.Paused {
				stopped++
			}
		}
		return stopped == n
	})
	t.Logf("stopped in %v", time.Since(began))
}

// waitingStore has a paused queue, and deals no partition.
type waitingStore struct {
	*counter.Memory
	waits chan struct{} // gets one when the consumer waits
}

func (s waitingStore) Control(ctx context.Context, vhost, queue string, r counter.Reader) (counter.Control, error) {
	if r.Stopped {
		s.noteWait()
	}
	return s.Memory.Control(ctx, vhost, queue, r)
}

func (s waitingStore) Deal(context.Context, string, string, rules.DealRead) ([]int, error) {
	s.noteWait()
	return nil, nil
}

func (s waitingStore) noteWait() {
	select {
	case s.waits <- struct{}{}:
	default:
	}
}

// TestRunOutlivesARefusalAfterAWait: a process that waits for the end of a pause, or for a partition, loses its
// connection, and the queue is refused for a while, as when a broker restarts. Run goes on.
func TestRunOutlivesARefusalAfterAWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]consumer.Consumer{"paused": {}, "idle": {Ordered: true, Partitions: 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := waitingStore{counter.NewMemory(nil), make(chan struct{}, 1)}
			c.Queue, c.Counter = uniqueName(t, "orders"), store
			c.Handler = func(context.Context, amqp.Delivery) error { return nil }
			need(t, store.Pause(t.Context(), "/", c.Queue, counter.Note{By: "jo", Why: "a test"}))
			ctx, stop := context.WithCancel(t.Context())
			checks := 0
			c.Check.Instead = func(_ context.Context, conn *amqp.Connection) error {
				switch checks++; checks {
				case 1:
					go func() {
						<-store.waits
						_ = conn.Close()
					}()
					return nil
				case 3:
					stop()
				}
				return errors.New("there is no such queue")
			}
			if err := c.Run(ctx, dialer(t)); err != nil {
				t.Errorf("Run ended after %d checks: %v", checks, err)
			}
		})
	}
}

// TestPausesLeaveNoGoroutine holds that a consumer of a queue with delay queues has as many goroutines after a pause as
// before.
func TestPausesLeaveNoGoroutine(t *testing.T) {
	q := newDelayQueue(t)
	q.run(0, func(int) time.Duration { return 0 })
	before := runtime.NumGoroutine()
	for range 5 {
		need(t, q.store.Pause(t.Context(), q.conn.Config.Vhost, q.name, counter.Note{By: "jo", Why: "a test"}))
		q.consumers(t, 0)
		need(t, q.store.Resume(t.Context(), q.conn.Config.Vhost, q.name, counter.Note{By: "jo", Why: "a test"}))
		q.consumers(t, 1)
	}
	need(t, poll.Until(t.Context(), time.Minute, "the goroutines of five pauses end", func() error {
		if now := runtime.NumGoroutine(); now > before+2 { // a read of the store, and its timer
			return fmt.Errorf("%d goroutines, %d before the pauses", now, before)
		}
		return nil
	}))
}

// consumers waits until the queue has so many.
func (q *delayQueue) consumers(t *testing.T, want int) {
	t.Helper()
	need(t, poll.Until(t.Context(), time.Minute, fmt.Sprintf("the queue has %d consumers", want), func() error {
		have := 0
		q.must(func(ch *amqp.Channel) error {
			state, err := ch.QueueDeclarePassive(q.name, true, false, false, false, nil)
			have = state.Consumers
			return err
		})
		if have != want {
			return fmt.Errorf("it has %d", have)
		}
		return nil
	}))
}
