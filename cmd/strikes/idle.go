package main

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
)

// idle finds out when a consumer has had nothing to do for some time.
type idle struct {
	patience time.Duration

	mu    sync.Mutex
	held  int       // deliveries that were received and not settled: they run, or wait for the store, a worker or a retry
	until time.Time // not idle before
}

func newIdle(patience time.Duration) *idle { return &idle{patience: patience} }

// receive counts a delivery as something to do, until it is settled or left. It is the Key of a consumer, which is
// called once for each delivery, at its receipt, and returns the id that the consumer uses without a Key.
func (i *idle) receive(d amqp.Delivery) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held++
	i.extend()
	return d.MessageId
}

// Observe counts each outcome as something to do. The last outcome of a delivery ends its count.
func (i *idle) Observe(_ context.Context, e consumer.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch e.Outcome {
	case consumer.OutcomeAck, consumer.OutcomeRequeue, consumer.OutcomeDeadLetter, consumer.OutcomeMove,
		consumer.OutcomeSuperseded, consumer.OutcomeLeave:
		i.held--
	default: // the delivery still waits, or there is none
	}
	i.extend()
}

// extend has the consumer not idle for the patience from now on. The caller has locked i.mu.
func (i *idle) extend() { i.until = time.Now().Add(i.patience) }

// left is how long it takes at least to be idle.
func (i *idle) left() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.held > 0 {
		return i.patience
	}
	return time.Until(i.until)
}

// wait returns true once there was nothing to do for the whole of the patience and the queue is empty, false when ctx
// is done.
func (i *idle) wait(ctx context.Context, empty func() bool) bool {
	i.mu.Lock()
	i.extend()
	i.mu.Unlock()
	for {
		left := i.left()
		if left <= 0 {
			if empty() && i.left() <= 0 {
				return true
			}
			left = i.patience
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}
