package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
)

// A whole program: it consumes the queue orders until it is interrupted.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	counts, err := counter.Dial("redis://localhost:6379/0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer counts.Close()

	orders := consumer.Consumer{
		Queue:   "orders",
		Counter: counts,
		Handler: func(ctx context.Context, d amqp.Delivery) error {
			return book(ctx, d.Body) // nil acks it; an error has it tried again, 3 times
		},
	}
	dial := consumer.Dialer("amqp://guest:guest@localhost/", amqp.Config{})
	if err := orders.Run(ctx, dial); err != nil {
		log.Fatal(err)
	}
}

// The payments of each customer are handled in their order, and customers side by side. Behind a dead letter the
// payments of its customer wait in the dead-letter queue, until an operator replays or releases the lane.
func ExampleConsumer_lanes() {
	customer := func(d amqp.Delivery) string {
		name, _ := d.Headers["customer"].(string)
		return name // payments without the header are one lane, ""
	}
	payments := &consumer.Consumer{
		Queue:       "payments", // a single-active-consumer queue
		Ordered:     true,
		Lane:        customer,
		HoldLanes:   true,
		Concurrency: 8,
	}
	fmt.Println(payments.Validate())
	// Output: <nil>
}

// sink is the broker's side of a delivery in a unit test.
type sink struct{}

func (sink) Ack(uint64, bool) error         { fmt.Println("acked"); return nil }
func (sink) Nack(_ uint64, _, r bool) error { fmt.Println("nacked, requeue:", r); return nil }
func (sink) Reject(uint64, bool) error      { return errors.New("never used") }

var errBusy = errors.New("the bank is busy")

// A handler under test needs neither a broker nor Redis: deliver to it by hand, and count in memory.
func ExampleConsumer_Handle() {
	c := &consumer.Consumer{
		Queue:      "orders",
		Handler:    func(context.Context, amqp.Delivery) error { return errBusy },
		Counter:    counter.NewMemory(nil),
		MaxRetries: 1,
		Backoff:    func(int) time.Duration { return 0 },
	}

	for _, redelivered := range []bool{false, true} {
		d := amqp.Delivery{Acknowledger: sink{}, MessageId: "order 17", Redelivered: redelivered}
		outcome, err := c.Handle(context.Background(), "/", d)
		fmt.Println(outcome, err)
	}
	// Output:
	// nacked, requeue: true
	// requeue <nil>
	// nacked, requeue: false
	// dead-letter <nil>
}

// Reject dead-letters a message that can never succeed. RetryAfter sets the delay when the handler knows it.
func ExampleReject() {
	handler := func(_ context.Context, d amqp.Delivery) error {
		if len(d.Body) == 0 {
			return consumer.Reject(errors.New("empty order"))
		}
		return consumer.RetryAfter(errBusy, time.Minute)
	}
	c := &consumer.Consumer{Queue: "orders", Handler: handler, Counter: counter.NewMemory(nil)}
	d := amqp.Delivery{Acknowledger: sink{}, MessageId: "order 17"}
	fmt.Println(c.Handle(context.Background(), "/", d))
	// Output:
	// nacked, requeue: false
	// dead-letter <nil>
}

// The last attempt may be worth another way. All attempts at one delivery have its fence.
func ExampleAttemptFrom() {
	handler := func(ctx context.Context, d amqp.Delivery) error {
		a, _ := consumer.AttemptFrom(ctx)
		fmt.Printf("attempt %d of %d, fence %d\n", a.Number, a.Last, a.Fence)
		return errBusy
	}
	c := &consumer.Consumer{
		Queue: "orders", Handler: handler, Counter: counter.NewMemory(nil), MaxRetries: 2, Retry: consumer.RetryInPlace,
		Backoff: func(int) time.Duration { return time.Millisecond },
	}
	d := amqp.Delivery{Acknowledger: sink{}, MessageId: "order 17"}
	fmt.Println(c.Handle(context.Background(), "/", d))
	// Output:
	// attempt 1 of 3, fence 0
	// attempt 2 of 3, fence 0
	// attempt 3 of 3, fence 0
	// nacked, requeue: false
	// dead-letter <nil>
}

// A Logger shows each dead letter at WARN, and each retry at DEBUG.
func ExampleConsumer_Handle_logger() {
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	handler := func(context.Context, amqp.Delivery) error { return errBusy }
	c := &consumer.Consumer{Queue: "orders", Handler: handler, Counter: counter.NewMemory(nil), MaxRetries: -1,
		Logger: logger}
	d := amqp.Delivery{Acknowledger: sink{}, MessageId: "order 17"}
	fmt.Println(c.Handle(context.Background(), "/", d))
	// Output:
	// nacked, requeue: false
	// level=WARN msg="dead-lettered a message" outcome=dead-letter queue=orders id="order 17" attempt=1 limit=1 cause=failed error="the bank is busy"
	// dead-letter <nil>
}

func book(context.Context, []byte) error { return nil }
