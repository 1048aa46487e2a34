package topology_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/topology"
)

// The commonest use: declare the queue at deployment, with a user who may configure, and check it before consuming.
func Example() {
	conn, err := amqp.Dial("amqp://guest:guest@localhost:5672/")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	ctx := context.Background()
	if err := topology.Declare(ctx, conn, topology.Spec{Queue: "orders"}); err != nil { // and orders.dlx, orders.dlq
		log.Fatal(err)
	}
	if err := topology.Check(ctx, conn, topology.Need{Queue: "orders", MaxRetries: 5}); err != nil {
		log.Fatal(err)
	}
}

// Publish/subscribe: two subscriptions to a topic exchange, each with its own queue, count and dead letters. The
// exchange shop exists. The client binds each queue to it once Declare has made the queue's dead-letter route.
func ExampleDeclare() {
	conn, err := amqp.Dial("amqp://guest:guest@localhost:5672/")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	ch, err := conn.Channel()
	if err != nil {
		log.Fatal(err)
	}
	for queue, key := range map[string]string{"billing": "order.paid", "audit": "#"} {
		if err := topology.Declare(context.Background(), conn, topology.Spec{Queue: queue}); err != nil {
			log.Fatal(err)
		}
		if err := ch.QueueBind(queue, key, "shop", false, nil); err != nil {
			log.Fatal(err)
		}
	}
}

// Checking a queue whose dead-letter exchange is set by policy, which only the management API reports.
func ExampleCheck() {
	conn, err := amqp.Dial("amqp://guest:guest@localhost:5672/")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	err = topology.Check(context.Background(), conn, topology.Need{
		Queue:      "orders",
		Management: "http://guest:guest@localhost:15672",
		Logger:     slog.Default(),
	})
	var refused *topology.RefusedError
	switch {
	case errors.As(err, &refused):
		for _, f := range refused.Findings {
			fmt.Printf("%s\n  %s\n  to fix: %s\n", f.Seen, f.Impact, f.Fix)
		}
	case errors.Is(err, topology.ErrQueueNotFound):
		fmt.Println("declare the queue first")
	case err != nil:
		log.Fatal(err) // the connection; nothing is known of the queue
	}
}

func ExampleRefusedError() {
	err := error(&topology.RefusedError{Queue: "orders", Findings: []topology.Finding{{
		Code:   "dead-letter-exchange-missing",
		Seen:   `the dead-letter exchange "orders.dlx" does not exist`,
		Impact: "rejected messages are lost silently",
		Fix:    `declare the exchange "orders.dlx" and bind a dead-letter queue to it`,
	}}})
	fmt.Println(err)
	// Output:
	// topology: queue "orders" refused: dead-letter-exchange-missing: the dead-letter exchange "orders.dlx" does not exist; rejected messages are lost silently. To fix: declare the exchange "orders.dlx" and bind a dead-letter queue to it
}
