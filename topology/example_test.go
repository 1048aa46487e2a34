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

// Declaring at deployment, with a user who may configure.
func ExampleDeclare() {
	conn, err := amqp.Dial("amqp://guest:guest@localhost:5672/")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	err = topology.Declare(context.Background(), conn, topology.Spec{
		Queue:                "orders",
		SingleActiveConsumer: true,
		Bindings:             []topology.Binding{{Exchange: "shop", Key: "order.*"}},
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Checking at the start of a consumer whose dead-letter exchange is set by
// policy, which only the management API can tell.
func ExampleCheck() {
	conn, err := amqp.Dial("amqp://guest:guest@localhost:5672/")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	err = topology.Check(context.Background(), conn, topology.Need{
		Queue:      "orders",
		MaxRetries: 5,
		Management: "http://guest:guest@localhost:15672",
		Logger:     slog.Default(),
	})
	var refused *topology.RefusedError
	switch {
	case errors.As(err, &refused):
		for _, f := range refused.Findings {
			fmt.Printf("%s\n  %s\n  to fix: %s\n", f.Seen, f.Why, f.Fix)
		}
	case errors.Is(err, topology.ErrQueueNotFound):
		fmt.Println("declare the queue first")
	case err != nil:
		log.Fatal(err) // the connection; nothing is known of the queue
	}
}

// Reporting on a queue without refusing anything.
func ExampleInspect() {
	conn, err := amqp.Dial("amqp://guest:guest@localhost:5672/")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	findings, err := topology.Inspect(context.Background(), conn, topology.Need{Queue: "orders", MaxRetries: 3})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range findings {
		fmt.Println(f.Severity, f)
	}
}

// What strikes doctor does for one queue.
func ExampleExamine() {
	conn, err := amqp.Dial("amqp://guest:guest@localhost:5672/")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	need := topology.Need{Queue: "orders", MaxRetries: 3, Ordered: true, Management: "http://guest:guest@localhost:15672"}
	findings, err := topology.Examine(context.Background(), conn, need)
	if err != nil {
		log.Fatal(err)
	}
	proof, err := topology.Probe(context.Background(), conn, need) // on scratch queues
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range append(findings, proof.Findings...) {
		fmt.Println(f.Severity, f)
		fmt.Println(f.Command) // for a shell; may be empty
	}
}

func ExampleRefusedError() {
	err := error(&topology.RefusedError{Queue: "orders", Findings: []topology.Finding{{
		Code:     "dead-letter-exchange-missing",
		Severity: topology.Error,
		Seen:     `the dead-letter exchange "orders.dlx" does not exist`,
		Why:      "rejected messages are dropped, and nobody is told",
		Fix:      `declare the exchange "orders.dlx" and bind a dead-letter queue to it`,
	}}})
	fmt.Println(err)
	// Output:
	// topology: queue "orders" refused: dead-letter-exchange-missing: the dead-letter exchange "orders.dlx" does not exist; rejected messages are dropped, and nobody is told. To fix: declare the exchange "orders.dlx" and bind a dead-letter queue to it
}
