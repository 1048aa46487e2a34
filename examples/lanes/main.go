// Command lanes handles the payments of each customer in order, and customers side by side.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

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
	// One consumer at a time gets messages; others wait to take over.
	if err := topology.Declare(ctx, conn, topology.Spec{Queue: "payments", SingleActiveConsumer: true}); err != nil {
		return err
	}
	counts, err := counter.Dial(os.Getenv("REDIS_URL"), nil)
	if err != nil {
		return err
	}
	defer counts.Close()

	payments := consumer.Consumer{
		Queue:       "payments",
		Counter:     counts,
		Handler:     pay,
		Ordered:     true,
		Lane:        func(d amqp.Delivery) string { return fmt.Sprint(d.Headers["customer"]) },
		Concurrency: 8,
	}
	return payments.Run(ctx, dial)
}

// pay fails once for a payment "twice". Later payments of the customer wait; other customers do not.
func pay(ctx context.Context, d amqp.Delivery) error {
	attempt, _ := consumer.AttemptFrom(ctx)
	if string(d.Body) == "twice" && attempt.Number == 1 {
		return fmt.Errorf("the bank refused %s", d.Body)
	}
	fmt.Printf("%v paid %s\n", d.Headers["customer"], d.Body)
	return nil
}
