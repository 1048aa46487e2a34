package publisher_test

import (
	"context"
	"errors"
	"log"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/publisher"
)

// This program publishes one message to a queue with a confirm. It publishes again, with the same id, as long as the
// message may or may not be in the queue.
func Example() {
	p, err := publisher.New(publisher.Dialer("amqp://guest:guest@localhost:5672/", amqp.Config{}), nil)
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

// A caller decides by the kind of the error whether the message can be published again.
func ExamplePublisher_Publish() {
	p, err := publisher.New(publisher.Dialer("amqp://guest:guest@localhost:5672/", amqp.Config{}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	id, err := p.Publish(ctx, "shop", "order.paid", amqp.Publishing{Body: []byte("17")})
	switch {
	case err == nil:
		log.Printf("%s is in a queue", id)
	case errors.Is(err, publisher.ErrUnroutable):
		log.Printf("%s is lost unless a queue is bound: %v", id, err)
	case errors.Is(err, publisher.ErrNacked), errors.Is(err, publisher.ErrConnectionLost),
		errors.Is(err, context.DeadlineExceeded):
		log.Printf("publish %s again with the same id: %v", id, err)
	default:
		log.Printf("%s will be refused again: %v", id, err)
	}
}

// PublishAll stamps the messages of a batch, so the failed ones are published again with the same ids.
func ExamplePublisher_PublishAll() {
	p, err := publisher.New(publisher.Dialer("amqp://guest:guest@localhost:5672/", amqp.Config{}), nil)
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
