package consumer

import (
	"context"
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// oneBlocked is a store in which a lane of the queue itself is blocked.
type oneBlocked struct{ *counter.Memory }

func (oneBlocked) BlockedLanes(_ context.Context, _, queue string) (int, error) {
	if queue == "orders" {
		return 1, nil
	}
	return 0, nil
}

// TestLanesOfTheQueueRefusePartitions: a lane was blocked before the queue had partitions, and new messages would
// overtake its dead letters. The room of partitions serves the session, and the rooms inside it are asked before.
func TestLanesOfTheQueueRefusePartitions(t *testing.T) {
	c := partitioned(func(c *Consumer) { c.Counter = oneBlocked{counter.NewMemory(nil)} }).withDefaults()
	s := newSession(c, "/", nil)
	if err := s.rooms.check(t.Context(), &amqp.Connection{}); !errors.Is(err, ErrLanesBlocked) {
		t.Errorf("got %v", err)
	}
}
