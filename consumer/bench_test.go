package consumer

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// BenchmarkFirstDelivery measures the overhead of a session for a delivery that succeeds immediately, without a broker
// and a store.
func BenchmarkFirstDelivery(b *testing.B) {
	for _, bc := range []struct {
		name string
		set  Consumer
	}{
		{"one handler", Consumer{Prefetch: 100}},
		{"16 handlers", Consumer{Prefetch: 100, Concurrency: 16}},
		{"ordered", Consumer{Prefetch: 100, Ordered: true}},
		{"an ack each", Consumer{Prefetch: 100, AckEach: true}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			c := bc.set
			c.Queue, c.Counter = "orders", counter.NewMemory(nil)
			c.Handler = func(context.Context, amqp.Delivery) error { return nil }
			channel := &countingChannel{room: make(chan struct{}, c.Prefetch), done: make(chan struct{}),
				acked: make([]bool, b.N+1), lowest: 1}
			deliveries := make(chan amqp.Delivery)
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() {
				ended <- newSession(c.withDefaults(), "/", nil).serve(ctx, &link{channel: channel, deliveries: deliveries})
			}()
			b.ReportAllocs()
			for tag := range uint64(b.N) {
				channel.room <- struct{}{}
				deliveries <- amqp.Delivery{Acknowledger: channel, DeliveryTag: tag + 1,
					MessageId: "0198c2a6-7b0e-7cc3-98c4-dc0c0c07398f"}
			}
			<-channel.done
			b.StopTimer()
			stop()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		})
	}
}

// countingChannel gives room for a delivery for each that is acked.
type countingChannel struct {
	room   chan struct{}
	done   chan struct{}
	acked  []bool // by tag
	lowest uint64 // that is not acked
}

func (c *countingChannel) Ack(tag uint64, multiple bool) error {
	from := tag
	if multiple {
		from = c.lowest
	}
	for ; from <= tag; from++ {
		if !c.acked[from] {
			c.acked[from] = true
			<-c.room
		}
	}
	for c.lowest < uint64(len(c.acked)) && c.acked[c.lowest] {
		c.lowest++
	}
	if c.lowest == uint64(len(c.acked)) {
		close(c.done)
	}
	return nil
}
func (c *countingChannel) Nack(uint64, bool, bool) error { panic("nothing fails") }
func (c *countingChannel) Reject(uint64, bool) error     { panic("nothing fails") }
func (c *countingChannel) Cancel(string, bool) error     { return nil }
func (c *countingChannel) Qos(int, int, bool) error      { return nil }

func (c *countingChannel) Consume(string, string, bool, bool, bool, bool, amqp.Table) (<-chan amqp.Delivery, error) {
	return nil, nil
}
func (c *countingChannel) Close() error { return nil }
