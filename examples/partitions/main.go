// Command partitions books the orders of each customer in their order, and shares the customers with all other
// processes that run it. Start it several times. The routing key of an order is its customer.
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

// partitions is the number of queues among which the customers are spread. More processes than that wait.
const partitions = 8

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
	if err := topology.Declare(ctx, conn, topology.Spec{Queue: "bookings", Partitions: partitions}); err != nil {
		return err
	}
	counts, err := counter.Dial(os.Getenv("REDIS_URL"), nil)
	if err != nil {
		return err
	}
	defer counts.Close()

	orders := consumer.Consumer{
		Queue:       "bookings",
		Partitions:  partitions,
		Ordered:     true,
		Counter:     counts,
		Handler:     book,
		Concurrency: 16, // of all partitions that this process consumes
	}
	fmt.Println("waiting for messages in the queue bookings")
	return orders.Run(ctx, dial)
}

func book(_ context.Context, d amqp.Delivery) error {
	fmt.Printf("%s booked %s\n", d.RoutingKey, d.Body)
	return nil
}
