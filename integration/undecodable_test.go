package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/topology"
)

// undecodable are headers that amqp091-go writes and does not read, with the frame size that its consumer asks for.
var undecodable = map[string]struct {
	headers amqp.Table
	frame   int
}{
	"deep": {nested(40), 0},
	"wide": {amqp.Table{"a": make([]any, 9000)}, 0},
	"long": {amqp.Table{"a": strings.Repeat("x", 9000)}, 8192},
}

func nested(levels int) amqp.Table {
	t := amqp.Table{}
	for range levels {
		t = amqp.Table{"t": t}
	}
	return t
}

// withUndecodable declares a queue with a dead-letter queue, and publishes m1, m2, a message that cannot be decoded, m3
// and m4.
func withUndecodable(t *testing.T, kind topology.Type, headers amqp.Table) (queue string) {
	t.Helper()
	queue = withMessages(t, kind, 6, "m1", "m2")
	publishBare(t, queue, amqp.Publishing{MessageId: "bad", DeliveryMode: amqp.Persistent, Headers: headers})
	publishIDs(t, dialer(t), queue, []string{"m3", "m4"})
	return queue
}

// untilDone runs fleet consumers that prefetch ten messages and take a while for each, until done or the time is over.
func untilDone(t *testing.T, queue string, frame, fleet int, store consumer.Counter, done func(handled map[string]int,
	told int) bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	var mu sync.Mutex
	handled, told := map[string]int{}, 0
	look := func() bool { mu.Lock(); defer mu.Unlock(); return done(handled, told) }
	var all sync.WaitGroup
	for range fleet {
		c := &consumer.Consumer{
			Queue: queue, Counter: store, Prefetch: 10, MaxRetries: 1, // which a delivery limit of 6 allows
			Handler: func(ctx context.Context, d amqp.Delivery) error {
				select {
				case <-time.After(50 * time.Millisecond):
				case <-ctx.Done():
					return ctx.Err()
				}
				mu.Lock()
				defer mu.Unlock()
				handled[d.MessageId]++
				return nil
			},
			Observer: observer(func(e consumer.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Outcome == consumer.OutcomeUndecodable && e.Queue == queue {
					told++
				}
			}),
		}
		all.Go(func() {
			err := c.Run(ctx, consumer.Dialer(brokerURL(t), amqp.Config{FrameSize: frame}))
			if ctx.Err() != nil && errors.Is(err, consumer.ErrUncleanStop) { // the message ended the connection meanwhile
				return
			}
			if err != nil {
				t.Errorf("Run: %v", err)
				stop()
			}
		})
	}
	for !look() && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	all.Wait()
	if !look() {
		t.Errorf("after three minutes: handled %v, told of it %d times", handled, told)
	}
}

func allHandled(handled map[string]int) bool {
	return handled["m1"] > 0 && handled["m2"] > 0 && handled["m3"] > 0 && handled["m4"] > 0
}

// TestUndecodableTakesNoNeighbour: on a quorum queue the broker dead-letters the message at its delivery limit, and
// nothing else.
func TestUndecodableTakesNoNeighbour(t *testing.T) {
	t.Parallel()
	for name, bad := range undecodable {
		for _, fleet := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, fleet of %d", name, fleet), func(t *testing.T) {
				queue := withUndecodable(t, topology.Quorum, bad.headers)
				store := counters(t)
				untilDone(t, queue, bad.frame, fleet, store, func(handled map[string]int, told int) bool {
					return allHandled(handled) && told >= 7
				})
				proctest.Eventually(t, time.Minute, "the source empty, one dead letter", func() bool {
					return queueDepth(t, queue) == 0 && queueDepth(t, queue+".dlq") == 1
				})
				state, err := store.Admin().State(t.Context(), "/", queue)
				u := state.Undecodable
				if err != nil || !strings.Contains(u, "its headers") {
					t.Errorf("noted: %q, %v", u, err)
				}
			})
		}
	}
}

// TestUndecodableBlocksAClassicQueue until the management API takes it out, as the error says.
func TestUndecodableBlocksAClassicQueue(t *testing.T) {
	t.Parallel()
	for name, bad := range undecodable {
		t.Run(name, func(t *testing.T) {
			queue := withUndecodable(t, topology.Classic, bad.headers)
			untilDone(t, queue, bad.frame, 1, counter.NewMemory(nil), func(handled map[string]int, told int) bool {
				return handled["m1"] > 0 && handled["m2"] > 0 && told >= 4
			})
			proctest.Eventually(t, time.Minute, "three messages are left", func() bool { return queueDepth(t, queue) == 3 })
			rejectHead(t, queue, "bad")
			untilDone(t, queue, bad.frame, 1, counter.NewMemory(nil), func(handled map[string]int, told int) bool {
				return handled["m3"] > 0 && handled["m4"] > 0 && told == 0
			})
			proctest.Eventually(t, time.Minute, "the source empty, one dead letter", func() bool {
				return queueDepth(t, queue) == 0 && queueDepth(t, queue+".dlq") == 1
			})
		})
	}
}

// rejectHead rejects a message as "Get messages" with "Reject requeue false" does in the management UI.
func rejectHead(t *testing.T, queue, id string) {
	t.Helper()
	api := managementURL(t) + "/api/queues/%2F/" + queue + "/get"
	body := `{"count":1,"ackmode":"reject_requeue_false","encoding":"auto","truncate":100}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api, strings.NewReader(body))
	need(t, err)
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	need(t, err)
	defer answer.Body.Close()
	text := new(strings.Builder)
	_, err = io.Copy(text, answer.Body)
	need(t, err)
	if answer.StatusCode != http.StatusOK || !strings.Contains(text.String(), `"message_id":"`+id+`"`) {
		t.Fatalf("the management API: %s: %.300s", answer.Status, text)
	}
}
