package counter

import (
	"context"
	"errors"
)

// Holding returns the message for which a queue is paused; nil without an error if the queue is not paused, or for no
// message.
func (a *Admin) Holding(ctx context.Context, vhost, queue string) (*Holding, error) {
	h, err := a.fields(ctx, Queue{vhost, queue}, docPause)
	if err != nil {
		return nil, failed("holding", queue, err)
	}
	if h["paused"] != "1" {
		return nil, nil //nolint:nilnil // none is no error
	}
	return holdingOf(h, Queue{vhost, queue}), nil
}

// holdingOf reads the message that holds a queue from the fields of its pause; nil: none does.
func holdingOf(h map[string]string, of Queue) *Holding {
	if h["message"] == "" {
		return nil
	}
	return &Holding{
		Message: Message{VHost: of.VHost, Queue: of.Name, ID: h["id"], Generation: h["generation"]},
		Cause:   Cause(h["cause"]), Since: millis(h["since"]), Only: h["only"] == "1",
	}
}

// HoldQueue pauses a queue for a message that cannot be counted, because it has no id. The Note says which consumer
// does it, and why. Only Resume ends the pause. HoldQueue is safe to repeat after an error.
func (c *Counter) HoldQueue(ctx context.Context, vhost, queue string, n Note) error {
	return unlessPaused(c.setPaused(ctx, Message{VHost: vhost, Queue: queue}, true, n))
}

func unlessPaused(err error) error {
	if errors.Is(err, ErrPaused) {
		return nil
	}
	return err
}
