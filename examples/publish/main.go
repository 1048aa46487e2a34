// Command publish publishes each line of its input to the queue invoices, and exits with 0 when the broker has
// confirmed all.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dial := publisher.Dialer(os.Getenv("AMQP_URL"), amqp.Config{})
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := topology.Declare(ctx, conn, topology.Spec{Queue: "invoices"}); err != nil {
		return err
	}
	invoices, err := publisher.New(dial, nil)
	if err != nil {
		return err
	}
	defer invoices.Close()
	fmt.Fprintln(os.Stderr, "waiting for lines on the input: each is published to the queue invoices")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := publish(ctx, invoices, lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// publish returns nil when the broker has the message. While that is undecided it publishes the message again under the
// same id; consumers that compare ids then see one message twice.
func publish(ctx context.Context, invoices *publisher.Publisher, line string) error {
	msg := amqp.Publishing{Body: []byte(line)}
	for {
		id, err := invoices.Publish(ctx, "", "invoices", msg)
		var undecided *publisher.Error
		switch {
		case err == nil:
			fmt.Println("confirmed", line)
			return nil
		case errors.As(err, &undecided) && undecided.Undecided && ctx.Err() == nil:
			msg.MessageId = id
		default:
			return err
		}
	}
}
