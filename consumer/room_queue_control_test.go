package consumer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// untilPause serves deliveries of ids, and returns once the session has ended because its queue was paused.
func untilPause(t *testing.T, store Counter, handler Handler, redelivered bool, ids ...string) (settled string) {
	t.Helper()
	b := newBench()
	b.Counter, b.Retry = store, RetryInPlace
	s := b.session(Consumer{Handler: handler, MaxRetries: 1, Ordered: true, HoldLanes: true})
	k, release := heard(s)
	defer release()
	ctx, end := k.Consuming(t.Context())
	defer end()
	deliveries := make(chan amqp.Delivery, len(ids))
	for i, id := range ids {
		deliveries <- amqp.Delivery{Acknowledger: b.acks, DeliveryTag: uint64(i + 1), MessageId: id, Redelivered: redelivered}
	}
	if err := s.serve(ctx, &link{channel: quietWire{new([]string)}, deliveries: deliveries}); err != nil {
		t.Errorf("the session ended with %v", err)
	}
	return b.acks.String()
}

func TestAnExhaustedMessageHoldsItsQueue(t *testing.T) {
	why := counter.Note{By: "op", Why: "why"}
	m := counter.Message{VHost: "/", Queue: "orders", ID: "m1"}
	for name, tc := range map[string]struct {
		fails   error
		decide  func(*counter.Memory) error
		runs    int // after the decision
		settled string
	}{
		"failed, allowed": {errBoom, func(s *counter.Memory) error {
			return s.LimitMessage(t.Context(), m, 3, why)
		}, 1, ""},
		"failed, skipped": {errBoom, func(s *counter.Memory) error {
			return errOf(s.Skip(t.Context(), m, why))
		}, 0, "nack requeue=false"},
		"failed, reset": {errBoom, func(s *counter.Memory) error { return s.Reset(t.Context(), m, why) }, 2, ""},
		"failed, resumed": {errBoom, func(s *counter.Memory) error {
			return s.Resume(t.Context(), "/", "orders", why)
		}, 0, ""},
		"rejected, resumed": {Reject(errBoom), func(s *counter.Memory) error {
			return s.Resume(t.Context(), "/", "orders", why)
		}, 0, ""},
		"rejected, allowed": {Reject(errBoom), func(s *counter.Memory) error {
			return s.LimitMessage(t.Context(), m, 3, why)
		}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, runs := counter.NewMemory(nil), []string{}
				handler := func(_ context.Context, d amqp.Delivery) error {
					runs = append(runs, d.MessageId)
					return tc.fails
				}
				if settled := untilPause(t, store, handler, false, "m1", "m2"); settled != "" {
					t.Errorf("settled: %s", settled)
				}
				for _, id := range runs {
					if id != "m1" {
						t.Errorf("%s overtook the message that holds its queue", id)
					}
				}
				now, _ := store.State(t.Context(), "/", "orders")
				if held := now.Paused.Holding; held == nil || held.Message != m {
					t.Fatalf("held by %+v", held)
				}
				need(t, tc.decide(store))
				if now, _ := store.State(t.Context(), "/", "orders"); now.Paused != nil {
					t.Fatalf("still paused: %+v", now.Paused)
				}
				before := len(runs)
				ids := []string{"m1"}
				if tc.settled != "" {
					ids = append(ids, "m2") // holds its queue next
				}
				if settled := untilPause(t, store, handler, true, ids...); settled != tc.settled {
					t.Errorf("settled: %q, want %q", settled, tc.settled)
				}
				n := 0
				for _, id := range runs[before:] {
					if id == "m1" {
						n++
					}
				}
				if n != tc.runs {
					t.Errorf("%d attempts after the decision, want %d", n, tc.runs)
				}
			})
		})
	}
}

func TestAMessageWithoutAnIDHoldsItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, runs := counter.NewMemory(nil), 0
		handler := func(context.Context, amqp.Delivery) error { runs++; return errBoom }
		for n := 1; n < 4; n++ { // each resume is one attempt
			if settled := untilPause(t, store, handler, n > 1, "", "m2"); settled != "" || runs != n {
				t.Errorf("settled: %q, after %d attempts", settled, runs)
			}
			need(t, store.Resume(t.Context(), "/", "orders", counter.Note{}))
		}
	})
}

// pauseLost is a store that loses its first reply that a queue is paused.
type pauseLost struct {
	*counter.Memory
	lost bool
}

func (s *pauseLost) Control(ctx context.Context, vhost, queue string, r counter.Reader) (counter.Control, error) {
	reply, err := s.Memory.Control(ctx, vhost, queue, r)
	if reply.Paused && !s.lost {
		s.lost = true
		<-ctx.Done()
		return counter.Control{}, ctx.Err()
	}
	return reply, err
}

// TestALostReadOfAPauseIsNoAttempt: a pause is in force within two seconds, so the delivery that began it waits for
// these.
func TestALostReadOfAPauseIsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, runs := &pauseLost{Memory: counter.NewMemory(nil)}, 0
		handler := func(context.Context, amqp.Delivery) error { runs++; return errBoom }
		if settled := untilPause(t, store, handler, false, ""); settled != "" || runs != 1 || !store.lost {
			t.Errorf("settled: %q, after %d attempts, want 1; lost: %t", settled, runs, store.lost)
		}
	})
}

// awayStore is a store that is out of reach until a time.
type awayStore struct {
	*counter.Memory
	until time.Time
}

func (s *awayStore) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	if time.Now().Before(s.until) {
		return counter.Reply{}, errors.New("away")
	}
	return s.Memory.Fail(ctx, a, f)
}

func TestARejectedMessageHoldsItsQueueWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &awayStore{counter.NewMemory(nil), time.Now().Add(time.Minute)}
		handler := func(context.Context, amqp.Delivery) error { return Reject(errBoom) }
		if settled := untilPause(t, store, handler, false, "m1", "m2"); settled != "" {
			t.Errorf("settled: %s", settled)
		}
		now, _ := store.State(t.Context(), "/", "orders")
		if held := now.Paused.Holding; held == nil || held.Cause != counter.CauseRejected {
			t.Errorf("held by %+v", held)
		}
	})
}
