// Command fleet consumes the queue parcels. Start it several times: all processes share one count of each message.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/topology"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dial := consumer.Dialer(os.Getenv("AMQP_URL"), amqp.Config{})
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := topology.Declare(ctx, conn, topology.Spec{Queue: "parcels"}); err != nil { // may run in all processes
		return err
	}
	counts, err := counter.Dial(os.Getenv("REDIS_URL"), nil)
	if err != nil {
		return err
	}
	defer counts.Close()

	parcels := consumer.Consumer{
		Queue:      "parcels",
		Counter:    counts,
		Handler:    ship,
		MaxRetries: 5, // 6 attempts in all processes together
		Prefetch:   1, // any process may take the next attempt
		Backoff:    func(int) time.Duration { return 50 * time.Millisecond },
	}
	fmt.Println("waiting for messages in the queue parcels")
	return parcels.Run(ctx, dial)
}

func ship(ctx context.Context, d amqp.Delivery) error {
	attempt, _ := consumer.AttemptFrom(ctx)
	fmt.Printf("%s: attempt %d of %d\n", d.Body, attempt.Number, attempt.Last)
	if string(d.Body) == "no address" {
		return errors.New("the parcel has no address")
	}
	return nil
}
