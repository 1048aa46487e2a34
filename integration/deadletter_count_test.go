package integration

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/proctest"
)

// TestDeliveryCountTravels measures whether a message brings its delivery count along into a quorum dead-letter queue.
// From RabbitMQ 4.3 on it does. So a dead-letter queue with the same limit deletes it at its first return, which is why
// reading one is refused.
func TestDeliveryCountTravels(t *testing.T) {
	t.Parallel()
	const limit = 20 // the default of RabbitMQ 4
	queue := uniqueName(t, "travels")
	dead := queue + ".dlq"
	args := amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": limit, "x-dead-letter-exchange": "",
		"x-dead-letter-routing-key": dead}
	ch := pubChannel(t)
	_, err := ch.QueueDeclare(queue, true, false, false, false, args)
	need(t, err)
	_, err = ch.QueueDeclare(dead, true, false, false, false, amqp.Table{"x-queue-type": "quorum",
		"x-delivery-limit": limit})
	need(t, err)
	deleteLater(queue)
	need(t, ch.Confirm(false))
	confirm, err := ch.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{MessageId: "m"})
	need(t, err)
	confirm.Wait()
	proctest.Eventually(t, time.Minute, "the message at its limit", func() bool {
		d, ok, err := ch.Get(queue, false)
		need(t, err)
		if ok {
			need(t, d.Reject(true)) // which every version counts
		}
		return queueDepth(t, dead) == 1
	})

	reader, err := dialer(t)(t.Context())
	need(t, err)
	defer reader.Close()
	looks, err := reader.Channel()
	need(t, err)
	d, ok, err := looks.Get(dead, false)
	need(t, err)
	if !ok {
		t.Fatal("no dead letter came")
	}
	brought := broker.Integer(d.Headers["x-delivery-count"])
	need(t, d.Reject(true))
	need(t, looks.Close())

	major, minor := brokerVersion(t)
	travels := major > 4 || major == 4 && minor >= 3
	t.Logf("RabbitMQ %d.%d: it came with the delivery count %d", major, minor, brought)
	if travels != (brought > limit) {
		t.Errorf("RabbitMQ %d.%d: the delivery count in the dead-letter queue is %d", major, minor, brought)
	}
	left := 1
	if travels {
		left = 0
	}
	proctest.Eventually(t, time.Minute, "what becomes of it at its first return", func() bool {
		return queueDepth(t, dead) == left
	})
}
