package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
)

// table stands for a table of a database with a column for the fence.
type table struct {
	mu     sync.Mutex
	fences map[string]int64
}

var errOldFence = errors.New("refused: a later consumer has the order")

// save does the same as this statement. No row updated means that the fence is old:
//
//	INSERT INTO orders (id, status, fence) VALUES ($1, $2, $3)
//	ON CONFLICT (id) DO UPDATE SET status = $2, fence = $3 WHERE orders.fence <= $3
func (t *table) save(id, status string, fence int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if highest, ok := t.fences[id]; ok && fence < highest {
		fmt.Printf("%s: refused\n", status)
		return errOldFence
	}
	t.fences[id] = fence
	fmt.Printf("%s: saved\n", status)
	return nil
}

// A database refuses the writes of a consumer that lost its message and does not know it. It does so while another
// consumer has the message, and after the message was dead-lettered and replayed.
func ExampleAttempt_fence() {
	orders := &table{fences: map[string]int64{}}
	c := consumer.Consumer{
		Queue: "orders", Counter: counter.NewMemory(nil), Backoff: func(int) time.Duration { return time.Millisecond },
	}
	saving := func(status string, then error) consumer.Handler {
		return func(ctx context.Context, d amqp.Delivery) error {
			attempt, _ := consumer.AttemptFrom(ctx)
			if err := orders.save(d.MessageId, status, attempt.Fence); err != nil {
				return err
			}
			return then
		}
	}
	handle := func(d amqp.Delivery, h consumer.Handler) {
		d.Acknowledger = sink{}
		c.Handler = h
		fmt.Println(c.Handle(context.Background(), "/", d))
	}
	d := amqp.Delivery{MessageId: "order 17"}

	// The first consumer is cut off before it writes. The broker gives the message to another.
	cutOff := func(ctx context.Context, d amqp.Delivery) error {
		again := d
		again.Redelivered = true
		handle(again, saving("second consumer", errBusy))
		return saving("first consumer, cut off", nil)(ctx, d)
	}
	handle(d, cutOff)

	// The message is dead-lettered, and replayed. The second consumer is cut off, too, and wakes up after that.
	var old int64
	d.Redelivered = true
	handle(d, func(ctx context.Context, _ amqp.Delivery) error {
		attempt, _ := consumer.AttemptFrom(ctx)
		old = attempt.Fence
		return consumer.Reject(errBusy)
	})
	letter := deadletter.Message{ID: d.MessageId, Publishing: amqp.Publishing{MessageId: d.MessageId, Headers: d.Headers}}
	d = amqp.Delivery{MessageId: d.MessageId, Headers: letter.ForReplay("orders.dlq").Headers}
	handle(d, saving("replayed", nil))
	_ = orders.save(d.MessageId, "second consumer, cut off", old)

	// Output:
	// second consumer: saved
	// nacked, requeue: true
	// requeue <nil>
	// first consumer, cut off: refused
	// nacked, requeue: true
	// requeue <nil>
	// nacked, requeue: false
	// dead-letter <nil>
	// replayed: saved
	// acked
	// ack <nil>
	// second consumer, cut off: refused
}
