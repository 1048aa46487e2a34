package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestLockOfANameThatIsNotASCII: a session that meets another one waits for it, and then returns ErrBusy. The broker's
// refusal of the lock may be longer than 255 bytes. If it is not ASCII, the broker closes the connection with 541
// (4.x), as it does for a message that it cannot convert.
func TestLockOfANameThatIsNotASCII(t *testing.T) {
	t.Parallel()
	vhost := uniqueName(t, "société")
	manage(t, http.MethodPut, "/api/vhosts/"+url.PathEscape(vhost), "{}")
	t.Cleanup(func() { manage(t, http.MethodDelete, "/api/vhosts/"+url.PathEscape(vhost), "") })
	u, err := url.Parse(brokerURL(t))
	need(t, err)
	elsewhere := consumer.Dialer(u.JoinPath(url.PathEscape(vhost)).String(), amqp.Config{})
	for name, tt := range map[string]struct {
		queue string
		dial  func(context.Context) (*amqp.Connection, error)
	}{
		"short": {strings.Repeat("é", 10), dialer(t)},
		"long":  {strings.Repeat("é", 20), dialer(t)},
		"vhost": {"orders", elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := deadletter.Queue{Name: tt.queue + ".dlq", Dial: tt.dial, Handling: harmless}
			declare := func(name string, exclusive bool) *amqp.Connection {
				t.Helper()
				conn, err := tt.dial(t.Context())
				need(t, err)
				t.Cleanup(func() { _ = conn.Close() })
				ch, err := conn.Channel()
				need(t, err)
				_, err = ch.QueueDeclare(name, false, false, exclusive, false, amqp.Table{"x-queue-type": "classic"})
				need(t, err)
				return conn
			}
			browse := func() (err error) {
				for _, err = range q.Browse(t.Context(), deadletter.Filter{}) {
				}
				return err
			}
			lock := q.Name + ".strikes-lock"
			declare(q.Name, false)
			t.Cleanup(func() {
				need(t, onChannel(tt.dial, func(ch *amqp.Channel) error {
					return errOf(ch.QueueDelete(q.Name, false, false, false))
				}))
			})
			other := declare(lock, true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := q.Replay(ctx, deadletter.Replay{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("its context ends: %v", err)
			}
			if err := browse(); !errors.Is(err, deadletter.ErrBusy) || !strings.Contains(err.Error(), "or stop it") {
				t.Errorf("another session has it: %v", err)
			}
			time.AfterFunc(500*time.Millisecond, func() { _ = other.Close() })
			if err := browse(); err != nil {
				t.Errorf("the other session ends meanwhile: %v", err)
			}
		})
	}
}

// TestReplaysTogether begins replays of one queue at the same moment. One has it. The others find it taken, or the
// messages that the first left.
func TestReplaysTogether(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		const n, rounds, replays = 30, 8, 3
		for range rounds {
			q := withDeadLetters(t, queue, n)
			var results [replays]deadletter.Result
			var errs [replays]error
			var all sync.WaitGroup
			begin := make(chan struct{})
			for i := range replays {
				all.Go(func() {
					<-begin
					results[i], errs[i] = q.Replay(t.Context(), deadletter.Replay{Window: 5})
				})
			}
			close(begin)
			all.Wait()
			done, won := 0, 0
			for i, err := range errs {
				done += results[i].Done
				switch {
				case err == nil:
					won++
				case !errors.Is(err, deadletter.ErrBusy) || results[i].Done != 0:
					t.Errorf("%+v, %v", results[i], err)
				}
			}
			if won == 0 || done != n {
				t.Fatalf("%d of %d went on, %d of %d replayed: %v", won, replays, done, n, errs)
			}
			if diff := cmp.Diff(numbered("m", n), ids(getAll(t, queue))); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// TestOperatorsAtOnce begins a second operation in the middle of a first.
func TestOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		q := withDeadLetters(t, queue, 20)
		tried := 0
		r, err := q.Replay(t.Context(), deadletter.Replay{OnMessage: func(*deadletter.Message, error) {
			if tried++; tried != 5 {
				return
			}
			if r, err := q.Replay(t.Context(), deadletter.Replay{}); !errors.Is(err, deadletter.ErrBusy) || r.Done != 0 {
				t.Errorf("the second: %+v, %v", r, err)
			}
			for _, err := range q.Browse(t.Context(), deadletter.Filter{}) {
				if !errors.Is(err, deadletter.ErrBusy) || !strings.Contains(err.Error(), ".strikes-lock") {
					t.Errorf("a look: %v", err)
				}
			}
			if _, err := q.Depth(t.Context()); !errors.Is(err, deadletter.ErrBusy) {
				t.Errorf("a count: %v", err)
			}
		}})
		if err != nil || r.Done != 20 {
			t.Errorf("%+v, %v", r, err)
		}
		if got := ids(getAll(t, queue)); !slices.Equal(got, numbered("m", 20)) {
			t.Errorf("%v", got)
		}
	})
}

// TestDeliveryCountTravels measures whether a message brings its delivery count along into a quorum dead-letter queue.
// From RabbitMQ 4.3 on it does. So a dead-letter queue with the same limit deletes it at its first return, which is why
// reading one is refused.
func TestDeliveryCountTravels(t *testing.T) {
	t.Parallel()
	const limit = 20 // the default of RabbitMQ 4
	queue := limitedQueue(t, limit, amqp.Table{argLimit: limit})
	dead := queue + ".dlq"
	ch := pubChannel(t)
	publishBare(t, queue, amqp.Publishing{MessageId: "m"})
	eventually(t, "the message at its limit", func() bool {
		d, ok, err := ch.Get(queue, false)
		need(t, err)
		if ok {
			need(t, d.Reject(true)) // which every version counts
		}
		return queueDepth(t, dead) == 1
	})

	reader, err := dialer(t)(t.Context())
	need(t, err)
	defer reader.Close()
	looks, err := reader.Channel()
	need(t, err)
	d, ok, err := looks.Get(dead, false)
	need(t, err)
	if !ok {
		t.Fatal("no dead letter came")
	}
	brought := broker.Integer(d.Headers["x-delivery-count"])
	need(t, d.Reject(true))
	need(t, looks.Close())

	travels := !brokerVersion(t).Before(4, 3)
	if travels != (brought > limit) {
		t.Errorf("RabbitMQ %s: the delivery count in the dead-letter queue is %d", brokerVersion(t), brought)
	}
	left := 1
	if travels {
		left = 0
	}
	eventually(t, "what becomes of it at its first return", func() bool {
		return queueDepth(t, dead) == left
	})
}

// limitedQueue declares a quorum queue with a delivery limit, and a quorum dead-letter queue with these arguments.
func limitedQueue(t *testing.T, limit int, args amqp.Table) (queue string) {
	t.Helper()
	queue = uniqueName(t, "orders")
	deleteLater(t, queue)
	b := newTopo(t)
	args["x-queue-type"] = "quorum"
	b.queue(queue+".dlq", args)
	b.queue(queue, amqp.Table{"x-queue-type": "quorum", argLimit: limit, argDLX: "", argDLK: queue + ".dlq"})
	return queue
}

// TestTakingInPartsDeletesNothing: a dead-letter queue with a low delivery limit deletes a message that is returned too
// often. Each drop of one message takes that one alone. From RabbitMQ 4.3 on, a window whose file cannot be written is
// not counted either.
func TestTakingInPartsDeletesNothing(t *testing.T) {
	t.Parallel()
	for _, singleActive := range []bool{false, true} { // which refuses basic.get
		t.Run(fmt.Sprintf("single active consumer %v", singleActive), func(t *testing.T) {
			const limit, n = 5, 12
			queue := limitedQueue(t, 1000, amqp.Table{argLimit: limit, "x-single-active-consumer": singleActive})
			q := withDeadLetters(t, queue, n)
			q.Handling = deadletter.Handling{Take: true, Limit: limit, SingleActive: singleActive, Why: "the limit is low"}
			full := errors.New("the disk is full")
			var kept []string
			for range n - 2 {
				r, err := q.Drop(t.Context(), deadletter.Filter{}, 1, func(letters []*deadletter.Message) error {
					kept = append(kept, idsOf(letters)...)
					return nil
				})
				if err != nil || r.Done != 1 {
					t.Fatalf("%+v, %v", r, err)
				}
			}
			if !singleActive && !brokerVersion(t).Before(4, 3) {
				for range 2 * limit {
					if _, err := q.Drop(t.Context(), deadletter.Filter{}, 0, func([]*deadletter.Message) error {
						return full
					}); !errors.Is(err, full) {
						t.Fatal(err)
					}
				}
			}
			left := consumeAll(t, q.Name, n-len(kept))
			if diff := cmp.Diff(numbered("m", n), slices.Concat(kept, left)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// consumeAll takes n messages off a queue with a consumer, which a single-active-consumer queue requires, and returns
// their ids.
func consumeAll(t *testing.T, queue string, n int) (got []string) {
	t.Helper()
	need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
		deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
		for wait := time.After(time.Minute); err == nil && len(got) < n; {
			select {
			case d := <-deliveries:
				got = append(got, d.MessageId)
			case <-wait:
				return nil
			}
		}
		return err
	}))
	return got
}

// TestAnInterruptedReplayAtTheLimit: from RabbitMQ 4.3 on a message that died of the delivery limit is above the same
// limit of the dead-letter queue, and any return deletes it. An interruption returns none.
func TestAnInterruptedReplayAtTheLimit(t *testing.T) {
	t.Parallel()
	const limit, n = 2, 12 // before 4.3, three windows
	queue := limitedQueue(t, limit, amqp.Table{argLimit: limit})
	publish(t, queue, "m", n)
	eventually(t, "the messages at their limit", func() bool {
		need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
			d, ok, err := ch.Get(queue, false)
			if err != nil || !ok {
				return err
			}
			return d.Reject(true)
		}))
		return queueDepth(t, queue+".dlq") == n
	})
	q := deadLetterQueue(t, queue)
	q.Handling = deadletter.Handling{Take: true, Limit: limit, Why: "the limit is low"}
	ctx, interrupt := context.WithCancel(t.Context())
	r, err := q.Replay(ctx, deadletter.Replay{Window: 4, Rate: 1, OnMessage: func(*deadletter.Message, error) {
		time.AfterFunc(20*time.Millisecond, interrupt) // the next one waits for its turn
	}})
	if !errors.Is(err, context.Canceled) || r.Done == 0 || r.Done == n || len(r.Undecided) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := slices.Concat(ids(getAll(t, queue)), ids(getAll(t, q.Name))); !slices.Equal(got, numbered("m", n)) {
		t.Errorf("after %d were replayed there are %v", r.Done, got)
	}
}

// TestReplayBeyondTheConsumerTimeout: a replay with a filter holds the whole queue. From RabbitMQ 4.3 on the broker
// takes the messages back after the consumer timeout, and ignores later acks. The replay ends then, and says so.
func TestReplayBeyondTheConsumerTimeout(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	if v := brokerVersion(t); v.Before(4, 3) {
		t.Skipf("RabbitMQ %s closes the channel", v)
	}
	const n = 60
	q := withDeadLetters(t, limitedQueue(t, 1000, amqp.Table{argLimit: 1 << 30, "x-consumer-timeout": 10_000}), n)
	r, err := q.Replay(t.Context(), deadletter.Replay{Rate: 2, Filter: deadletter.Filter{IDs: numbered("m", n)}})
	if !errors.Is(err, deadletter.ErrInterrupted) || r.Done == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	eventually(t, "the messages that are not replayed", func() bool {
		left := queueDepth(t, q.Name)
		return left <= n-r.Done && left >= n-r.Done-len(r.Undecided)
	})
	t.Logf("%d replayed, %v undecided: %v", r.Done, r.Undecided, err)
}
