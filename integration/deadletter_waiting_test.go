package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/topology"
)

// TestDeadLettersThatWait: a quorum queue whose dead-letter exchange is gone keeps rejected messages. AMQP does not
// count them, and the management API does.
func TestDeadLettersThatWait(t *testing.T) {
	t.Parallel()
	const n = 5
	queue := declared(t, topology.Quorum)
	publish(t, queue, "m", n)
	ready := -1
	err := onChannel(dialer(t), func(ch *amqp.Channel) error {
		if err := ch.ExchangeDelete(queue+".dlx", false, false); err != nil {
			return err
		}
		for range n {
			d, ok, err := ch.Get(queue, false)
			if err := errors.Join(err, d.Nack(false, false)); err != nil || !ok {
				return fmt.Errorf("got %v, %w", ok, err)
			}
		}
		q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		ready = q.Messages
		return err
	})
	if err != nil || ready != 0 {
		t.Fatalf("%d ready, %v", ready, err)
	}
	conn, need := dialBroker(t), inspect.Need{Queue: queue, Management: managementURL(t)}
	var load broker.Load
	proctest.Eventually(t, time.Minute, "the dead letters that wait", func() bool {
		load, err = doctor.Measure(t.Context(), conn, need)
		return err == nil && load.DeadLettering == n
	})
	if load.Ready != 0 || load.Unacked != 0 {
		t.Errorf("%+v", load)
	}
}
