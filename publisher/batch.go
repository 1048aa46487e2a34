package publisher

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Message is one message of a batch and its destination.
type Message struct {
	Exchange string // "" is the default exchange
	Key      string // routing key; with the default exchange, the queue
	amqp.Publishing
}

// BatchError is what PublishAll returns if any message failed.
type BatchError struct {
	// Errs has an entry for each message of the batch, at the same index: nil if it was confirmed, else its *Error.
	Errs []error
}

func (e *BatchError) Error() string {
	failed := e.Unwrap()
	return fmt.Sprintf("publisher: %d of %d messages failed; the first error: %v", len(failed), len(e.Errs), failed[0])
}

// Unwrap returns the errors of the messages that failed.
func (e *BatchError) Unwrap() []error {
	var failed []error
	for _, err := range e.Errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// PublishAll publishes msgs as Publish does, without waiting for one confirm before it sends the next. It returns when
// every message is confirmed or has failed: nil or a *BatchError. A failed message does not stop the others.
//
// It stamps msgs in place, so publishing the failed ones again repeats their ids. The messages enter each queue in the
// order of the slice, unless one of them fails.
func (p *Publisher) PublishAll(ctx context.Context, msgs []Message) error {
	errs := make([]error, len(msgs))
	sent := make([]*outgoing, len(msgs))
	for i := range msgs {
		o := newOutgoing(msgs[i].Exchange, msgs[i].Key, &msgs[i].Publishing)
		if errs[i] = p.start(ctx, o); errs[i] == nil {
			sent[i] = o
		}
	}
	failed := false
	for i, o := range sent {
		if o != nil {
			errs[i] = p.wait(ctx, o)
		}
		failed = failed || errs[i] != nil
	}
	if failed {
		return &BatchError{Errs: errs}
	}
	return nil
}
