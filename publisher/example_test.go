package publisher_test

import (
	"context"
	"errors"
	"log"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/publisher"
)

var dial = publisher.BufferedDialer("amqp://guest:guest@localhost:5672/", amqp.Config{})

// A whole program: one message to a queue, published again with its id as long
// as nobody can say whether it is there.
func Example() {
	p, err := publisher.New(dial, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	msg := amqp.Publishing{ContentType: "application/json", Body: []byte(`{"order":17}`)}
	for {
		msg.MessageId, err = p.Publish(ctx, "", "orders", msg)
		if err == nil {
			log.Printf("published %s", msg.MessageId)
			return
		}
		var e *publisher.Error
		if !errors.As(err, &e) || !e.Undecided || ctx.Err() != nil {
			log.Print(err)
			return
		}
	}
}

// A batch: what failed is published again, with the ids that PublishAll stamped.
func ExamplePublisher_PublishAll() {
	p, err := publisher.New(dial, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	msgs := []publisher.Message{
		{Key: "orders", Publishing: amqp.Publishing{Body: []byte("17")}},
		{Key: "orders", Publishing: amqp.Publishing{Body: []byte("18")}},
	}
	err = p.PublishAll(context.Background(), msgs)
	var batch *publisher.BatchError
	if errors.As(err, &batch) {
		var again []publisher.Message
		for i, err := range batch.Errs {
			if err != nil {
				again = append(again, msgs[i])
			}
		}
		err = p.PublishAll(context.Background(), again)
	}
	if err != nil {
		log.Print(err)
	}
}
