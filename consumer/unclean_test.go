package consumer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	amqp "github.com/rabbitmq/amqp091-go"
)

// lostWire is a channel that is lost just before it is closed: amqp091-go closes it without an error then.
type lostWire struct {
	quietWire
	lost chan *amqp.Error
}

func (w lostWire) Close() error { w.lost <- amqp.ErrClosed; return nil }

// TestAStopThatLosesItsChannelIsUnclean: the last acks may not have arrived.
func TestAStopThatLosesItsChannelIsUnclean(t *testing.T) {
	for name, unsent := range map[string]error{"before the ack": amqp.ErrClosed, "after the ack": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := unobserved()
				ctx, stop := context.WithCancel(t.Context())
				lost := make(chan *amqp.Error, 1)
				c := Consumer{Queue: "orders", Handler: func(context.Context, amqp.Delivery) error {
					stop()
					synctest.Wait()
					b.acks.fail = unsent
					return nil
				}}
				wire := lostWire{quietWire{new([]string)}, lost}
				if err := b.session(c).serve(ctx, &link{channel: wire, deliveries: b.queued("m1"), closed: lost}); !errors.Is(err,
					ErrUncleanStop) {
					t.Errorf("the session ended with %v", err)
				}
			})
		})
	}
}
