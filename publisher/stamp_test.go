package publisher

import (
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestStamp(t *testing.T) {
	var msg amqp.Publishing
	id := Stamp(&msg)
	if u, err := uuid.Parse(id); err != nil || u.Version() != 7 || msg.MessageId != id {
		t.Errorf("stamped %q, returned %q; want one UUIDv7", msg.MessageId, id)
	}
	if again := Stamp(&msg); again != id || msg.MessageId != id {
		t.Errorf("a second Stamp changed %q to %q", id, msg.MessageId)
	}
	if msg.DeliveryMode != 0 {
		t.Errorf("Stamp set DeliveryMode %d", msg.DeliveryMode)
	}
}

func TestDeliveryMode(t *testing.T) {
	for given, want := range map[uint8]uint8{0: amqp.Persistent, amqp.Transient: amqp.Transient,
		amqp.Persistent: amqp.Persistent} {
		if got := newOutgoing("", "q", &amqp.Publishing{DeliveryMode: given}).msg.DeliveryMode; got != want {
			t.Errorf("mode %d is sent as %d, want %d", given, got, want)
		}
	}
}
