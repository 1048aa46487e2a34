// Command lanes handles the payments of each customer in order, and customers side by side. Behind a dead letter a
// customer's payments wait in the dead-letter queue until an operator replays or releases the lane (strikes lane).
package main

import (
	"context"
	"errors"
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
		Lane:        customer,
		HoldLanes:   true,
		Concurrency: 8,
	}
	fmt.Println("waiting for messages in the queue payments")
	return payments.Run(ctx, dial)
}

// customer names the lane of a payment. Payments without the header are one lane, "".
func customer(d amqp.Delivery) string {
	name, _ := d.Headers["customer"].(string)
	return name
}

// pay fails once for a payment "twice": later payments of the customer wait, and those of others do not. A payment
// "closed" is dead-lettered, so that it blocks the lane of its customer.
func pay(ctx context.Context, d amqp.Delivery) error {
	attempt, _ := consumer.AttemptFrom(ctx)
	switch body := string(d.Body); {
	case body == "twice" && attempt.Number == 1:
		return errors.New("the bank does not answer")
	case body == "closed":
		return consumer.Reject(errors.New("the account is closed"))
	}
	fmt.Printf("%s paid %s\n", customer(d), d.Body)
	return nil
}
