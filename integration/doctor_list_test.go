package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

// TestRequeuePosition compares the rule of Queue.Requeue with the broker.
func TestRequeuePosition(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	for _, args := range []amqp.Table{
		{"x-queue-type": "classic"},
		{"x-queue-type": "classic", "x-single-active-consumer": true},
		{"x-queue-type": "quorum", argLimit: 50},
		{"x-queue-type": "quorum", argLimit: 50, "x-single-active-consumer": true},
		{"x-queue-type": "quorum"},
		{"x-queue-type": "quorum", argLimit: -1},
	} {
		q := b.name()
		b.queue(q, args)
		b.publish("", q, "1", "2", "3")
		var order string
		b.must(func(ch *amqp.Channel) error {
			need(t, ch.Qos(1, 0, false))
			deliveries, err := ch.Consume(q, "", false, false, false, false, nil)
			need(t, err)
			need(t, (<-deliveries).Nack(false, true))
			for range 3 {
				select {
				case d := <-deliveries:
					order += string(d.Body)
					need(t, d.Ack(false))
				case <-time.After(10 * time.Second): // a discarded message does not come again
				}
			}
			return nil
		})
		d, err := broker.Look(t.Context(), b.conn, q, nil)
		need(t, err)
		want := map[string][]broker.Position{
			"123": {broker.PositionOriginal, broker.PositionHead}, "231": {broker.PositionTail}, "23": {broker.PositionDiscarded},
		}[order]
		if !slices.Contains(want, d.Requeue()) {
			t.Errorf("%v: the rule says %v, and the broker delivers %s", args, d.Requeue(), order)
		}
	}
}

// depths are the messages of a queue and of its dead-letter queue; of one that
// does not exist, none.
func (b topo) depths(q string) (n [2]int) {
	for i, name := range []string{q, q + ".dlq"} {
		_ = b.try(func(ch *amqp.Channel) error {
			state, err := ch.QueueDeclarePassive(name, false, false, false, false, nil)
			n[i] = state.Messages
			return err
		})
	}
	return n
}

// The dead-letter queue that AMQP can name is looked at without the API.
func TestDoctorSeesTheNamedQueueOverAMQP(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.queue(q+".dlq", lettersTo("x-max-length", 5))
	b.queue(q, quorum(q, argDLX, "", argDLK, q+".dlq"))
	if got, findings := b.examine(inspect.Need{Queue: q, MaxRetries: 3}); got != "error dead-letter-queue-limited, "+
		"warning not-seen" {
		t.Errorf("found %v", findings)
	}
}

func TestDoctorLists(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q, bare, stream := b.name(), b.name(), b.name()
	on(quorum)(b, q)
	b.queue(bare, nil)
	broken, far := b.name(), b.name()
	b.queue(broken, classic(broken)) // its exchange does not exist
	b.queue(broken+".dlq", nil)
	b.way(far, "fanout", "")
	b.queue(far, classic(far, argDLX, b.named(far+".first")))
	b.exchange(far+".first", "fanout")
	b.must(func(ch *amqp.Channel) error { return ch.ExchangeBind(far+".dlx", "", far+".first", false, nil) })
	b.queue(stream, amqp.Table{"x-queue-type": "stream"})
	b.must(func(ch *amqp.Channel) error {
		mine, err := ch.QueueDeclare("", false, false, true, false, nil)
		if err != nil {
			return err
		}
		listing, err := doctor.List(t.Context(), b.conn, inspect.Need{Management: managementURL(t)})
		if err != nil {
			return err
		}
		listed := " " + strings.Join(listing.Queues, " ") + " | " + strings.Join(listing.PassedOver, " ") + " "
		for name, want := range map[string]bool{q: true, bare: true, stream: false, q + ".dlq": false, mine.Name: false,
			broken: true, broken + ".dlq": false, far: true, far + ".dlq": false} {
			at := strings.Index(listed, " "+name+" ")
			if at < 0 || (at < strings.Index(listed, "|")) != want {
				t.Errorf("%s: want listed %v: %s", name, want, listed)
			}
		}
		return nil
	})
}
