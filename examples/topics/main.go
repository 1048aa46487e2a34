// Command topics publishes one event to two subscriptions. Each has its own queue, count and dead letters. Billing
// fails, and its dead letter is replayed to billing alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

type dialer = func(context.Context) (*amqp.Connection, error)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dial := consumer.Dialer(os.Getenv("AMQP_URL"), amqp.Config{})
	counts, err := counter.Dial(os.Getenv("REDIS_URL"), nil)
	if err != nil {
		return err
	}
	defer counts.Close()
	if err := declare(ctx, dial); err != nil {
		return err
	}

	var bankUp atomic.Bool
	handled := make(chan struct{}, 2) // by mail, and by billing in the end
	handlers := map[string]consumer.Handler{
		"mail": func(_ context.Context, d amqp.Delivery) error {
			fmt.Printf("mail: sent %s\n", d.Body)
			handled <- struct{}{}
			return nil
		},
		"billing": func(_ context.Context, d amqp.Delivery) error {
			if !bankUp.Load() {
				return errors.New("the bank is down")
			}
			fmt.Printf("billing: billed %s\n", d.Body)
			handled <- struct{}{}
			return nil
		},
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	for queue, handler := range handlers {
		c := consumer.Consumer{Queue: queue, Counter: counts, Handler: handler, MaxRetries: -1}
		group.Go(func() error { return c.Run(ctx, dial) })
	}
	group.Go(func() error {
		defer stop()
		if err := publish(ctx, dial); err != nil {
			return err
		}
		// No policy limits how often billing.dlq may be read. Where one might, deadletter.Open finds out.
		dead := deadletter.Queue{Name: "billing.dlq", Dial: dial, Records: counts.Admin(),
			Handling: deadletter.Handling{Take: true, Hold: true}}
		if err := waitForOne(ctx, &dead); err != nil {
			return err
		}
		bankUp.Store(true)
		result, err := dead.Replay(ctx, deadletter.Replay{})
		if err != nil {
			return err
		}
		fmt.Printf("billing: %d replayed\n", result.Done)
		for range cap(handled) {
			select {
			case <-handled:
			case <-ctx.Done():
			}
		}
		return nil
	})
	return group.Wait()
}

// declare makes the topic exchange shop, and a queue with a dead-letter route of its own for each subscription.
func declare(ctx context.Context, dial dialer) error {
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for queue, pattern := range map[string]string{"mail": "order.*", "billing": "order.paid"} {
		err := topology.Declare(ctx, conn, topology.Spec{
			Queue: queue, ExchangeType: "topic", Bindings: []topology.Binding{{Exchange: "shop", Key: pattern}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func publish(ctx context.Context, dial dialer) error {
	shop, err := publisher.New(dial, nil)
	if err != nil {
		return err
	}
	defer shop.Close()
	_, err = shop.Publish(ctx, "shop", "order.paid", amqp.Publishing{Body: []byte("order 17")})
	return err
}

// waitForOne polls until the queue holds a dead letter.
func waitForOne(ctx context.Context, q *deadletter.Queue) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := q.Depth(ctx)
		if n > 0 || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
