package consumer

import (
	"context"
	"testing"
	"testing/synctest"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestPartitionsShareAControl: the sessions on the partitions of a queue have one reader of its pauses.
func TestPartitionsShareAControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newSession(partitioned(func(*Consumer) {}).withDefaults(), "/", nil)
		room := find[*partitionRoom](queue.rooms)
		ctx, stop := context.WithCancel(t.Context())
		served := false
		room.serve = func(_ context.Context, _ *amqp.Connection, s *session) (bool, error) {
			served = find[*controlRoom](s.rooms).control == find[*controlRoom](queue.rooms).control
			stop()
			return false, nil
		}
		if err := room.keep(t.Context(), ctx, &amqp.Connection{}, 0); err != nil || !served {
			t.Errorf("it shares the control: %t; %v", served, err)
		}
	})
}
