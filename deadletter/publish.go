package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/publisher"
)

const (
	// confirmTime is how long a window may take to be confirmed, an outage or an
	// alarm of the broker included.
	confirmTime = 30 * time.Second
	// lastConfirms is how long an interrupted replay waits for what it has sent.
	lastConfirms = 2 * time.Second
)

// fate is what became of a message that was published again.
type fate int

const (
	replayed  fate = iota // confirmed
	passed                // not published, by what is the matter with it alone
	ended                 // not published, and the next would not be either
	undecided             // nobody knows
)

func fateOf(err error) fate {
	var failed *publisher.Error
	switch {
	case err == nil:
		return replayed
	case errors.As(err, &failed) && failed.Undecided:
		return undecided
	case errors.Is(err, ErrNoOrigin), errors.Is(err, publisher.ErrUnroutable), errors.Is(err, publisher.ErrInvalid):
		return passed
	}
	return ended
}

// publish publishes letters in order, and returns an error or nil for each.
func (w *replaying) publish(ctx context.Context, letters []*Message) []error {
	outcomes := make([]error, len(letters))
	var batch []publisher.Message
	var of []int
	for i, l := range letters {
		to, err := w.r.Target.destination(l)
		if err != nil {
			outcomes[i] = fmt.Errorf("%w: message %q: give an exchange or a queue to replay it to", err, l.Name())
			continue
		}
		msg := revive(l, w.q.Name, time.Now())
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
