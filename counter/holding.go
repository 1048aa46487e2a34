package counter

import (
	"context"
	"errors"
	"fmt"
)

// Holding returns the message for which a queue is paused; nil without an error if the queue is not paused, or for no
// message.
func (a *Admin) Holding(ctx context.Context, vhost, queue string) (*Holding, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	h, err := a.rdb.HGetAll(ctx, a.opts.controlKeys(vhost, queue)[0]).Result()
	if err != nil {
		return nil, fmt.Errorf("counter: holding, queue %q: %w", queue, a.controlError(vhost, queue, err))
	}
	if h["paused"] != "1" || h["message"] == "" {
		return nil, nil //nolint:nilnil // none is no error
	}
	return &Holding{
		Message: Message{VHost: vhost, Queue: queue, ID: h["id"], Generation: h["generation"]},
		Cause:   Cause(h["cause"]), Since: millis(h["since"]), Only: h["only"] == "1",
	}, nil
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
