package integration

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/topology"
)

// TestConsumeEndsWhenTheBrokerDoesNotAnswer has the broker fall silent between the Check and basic.consume.
func TestConsumeEndsWhenTheBrokerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	between, through := proxied(t, brokerURL(t))
	dial := consumer.Dialer(through, amqp.Config{})
	conn, err := dial(t.Context())
	need(t, err)
	c := &consumer.Consumer{
		Queue: declared(t, topology.Classic), Counter: counter.NewMemory(nil),
		Handler: func(context.Context, amqp.Delivery) error { return nil },
		Check: consumer.Check{Instead: func(context.Context, *amqp.Connection) error {
			between.Mute(true)
			return nil
		}},
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.Consume(ctx, conn) }()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the broker did not answer") {
			t.Errorf("Consume: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("Consume goes on a minute after the end of its context")
	}
	between.Cut() // and goleak sees that the request ended with the connection
}

// closesInTheHandshake ends like a connection through a balancer whose server goes away after start-ok.
type closesInTheHandshake struct {
	net.Conn
	writes atomic.Int32
}

func (c *closesInTheHandshake) Write(b []byte) (int, error) {
	if c.writes.Add(1) > 1 { // the first is the protocol header
		return len(b), c.Close()
	}
	return c.Conn.Write(b)
}

func TestRunOutlivesABalancerThatHangsUp(t *testing.T) {
	t.Parallel()
	queue := declared(t, topology.Classic)
	publish(t, queue, "m", 1)
	dials := 0
	dial := consumer.Dialer(brokerURL(t), amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		socket, err := net.Dial(network, addr)
		if dials++; dials == 1 {
			return &closesInTheHandshake{Conn: socket}, err
		}
		return socket, err
	}})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	handled := false
	c := &consumer.Consumer{
		Queue: queue, Counter: counter.NewMemory(nil), Check: consumer.Check{AllowDrop: true},
		Handler: func(context.Context, amqp.Delivery) error { handled = true; stop(); return nil },
	}
	if err := c.Run(ctx, dial); err != nil || !handled || dials < 2 {
		t.Errorf("Run: %v after %d dials, handled %v", err, dials, handled)
	}
}
