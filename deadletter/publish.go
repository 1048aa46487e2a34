package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/publisher"
)

const (
	// confirmTime is how long a window may take to be confirmed, including an outage or an alarm of the broker.
	confirmTime = 30 * time.Second
	// lastConfirms is how long an interrupted replay waits for the confirms of what it sent.
	lastConfirms = 2 * time.Second
)

// fate is what became of a published message.
type fate int

const (
	replayed  fate = iota // confirmed
	skipped               // not published, for a reason of its own
	ended                 // not published, and the next would not be either
	undecided             // it may or may not be published
)

func fateOf(err error) fate {
	var failed *publisher.Error
	switch {
	case err == nil:
		return replayed
	case errors.As(err, &failed) && failed.Undecided:
		return undecided
	case errors.Is(err, ErrNoOrigin), errors.Is(err, publisher.ErrUnroutable), errors.Is(err, publisher.ErrInvalid):
		return skipped
	}
	return ended
}

// A Tracer follows the messages of a Replay.
type Tracer interface {
	// ReplayStart is called before a message is published. It may add to its Headers, which are never nil and the
	// message's own.
	ReplayStart(ctx context.Context, to Target, msg *amqp.Publishing) context.Context

	// ReplayEnd is called with that context once the message is confirmed (nil) or has failed.
	ReplayEnd(ctx context.Context, err error)
}

// publish publishes messages in order and returns an error or nil for each.
func (w *replaying) publish(ctx context.Context, messages []*Message) []error {
	outcomes := make([]error, len(messages))
	var batch []publisher.Message
	var of []int
	for i, m := range messages {
		to, err := w.r.Target.destination(m)
		if err != nil {
			outcomes[i] = fmt.Errorf("%w: message %q: give an exchange or a queue to replay it to", err, m.Name())
			continue
		}
		msg := m.forReplay(w.q.Name, to.queueOf(m), time.Now())
		if w.r.Tracer != nil {
			traced := w.r.Tracer.ReplayStart(ctx, to, &msg)
			defer func() { w.r.Tracer.ReplayEnd(traced, outcomes[i]) }()
		}
		batch, of = append(batch, publisher.Message{Exchange: to.Exchange, Key: to.Key, Publishing: msg}), append(of, i)
	}
	sending, cancel := outlive(ctx)
	defer cancel()
	var failed *publisher.BatchError
	if err := w.pub.PublishAll(sending, batch); errors.As(err, &failed) {
		for i, err := range failed.Errs {
			outcomes[of[i]] = err
		}
	}
	return outcomes
}

// outlive returns a context that is done a little after ctx is.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTime)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastConfirms, cancel) })
	return late, func() { stop(); cancel() }
}
