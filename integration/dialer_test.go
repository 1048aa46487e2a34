package integration

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// TestDialerDialsAgain shows that one Config, with its password and tables, serves any number of concurrent
// connections.
func TestDialerDialsAgain(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(brokerURL(t))
	need(t, err)
	password, _ := u.User.Password()
	config := amqp.Config{
		SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: u.User.Username(), Password: password}},
		Properties: amqp.Table{"connection_name": uniqueName(t, "again")},
	}
	u.User = nil
	for _, dial := range []func(context.Context) (*amqp.Connection, error){consumer.Dialer(u.String(), config),
		publisher.Dialer(u.String(), config)} {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				conn, err := dial(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

// TestDialerSendsAll has messages of all sizes published by many goroutines at the same time, and reads them back.
func TestDialerSendsAll(t *testing.T) {
	t.Parallel()
	dial := publisher.Dialer(brokerURL(t), amqp.Config{})
	conn, err := dial(t.Context())
	need(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	need(t, err)
	q, err := ch.QueueDeclare(uniqueName(t, "sizes"), false, true, true, false, nil)
	need(t, err)
	p, err := publisher.New(dial, nil)
	need(t, err)
	defer p.Close()
	deliveries, err := ch.Consume(q.Name, "", false, true, false, false, nil)
	need(t, err)
	sizes := []int{0, 1, 4095, 4096, 1 << 16, 1<<17 + 1, 3 << 20}
	const publishers = 8
	var all sync.WaitGroup
	for i := range publishers {
		all.Go(func() {
			for _, size := range sizes {
				body := bytes.Repeat([]byte{byte(i)}, size)
				if _, err := p.Publish(t.Context(), "", q.Name, amqp.Publishing{Body: body}); err != nil {
					t.Errorf("%d bytes: %v", size, err)
				}
			}
		})
	}
	got := map[int]int{}
	for range publishers * len(sizes) {
		select {
		case d := <-deliveries:
			if len(d.Body) > 0 && bytes.Count(d.Body, d.Body[:1]) != len(d.Body) {
				t.Fatalf("a message of %d bytes came back changed", len(d.Body))
			}
			got[len(d.Body)]++
			need(t, d.Ack(false))
		case <-time.After(time.Minute):
			t.Fatalf("came back, by size: %v", got)
		}
	}
	all.Wait()
	for _, size := range sizes {
		if got[size] != publishers {
			t.Errorf("%d messages of %d bytes, want %d", got[size], size, publishers)
		}
	}
}

// TestDialerNoticesALoss shows that the loss of a connection is reported as with any other, and that a broker that
// accepts and says nothing ends a dial with its context.
func TestDialerNoticesALoss(t *testing.T) {
	t.Parallel()
	between, through := proxied(t, brokerURL(t))
	dial := publisher.Dialer(through, amqp.Config{})
	conn, err := dial(t.Context())
	need(t, err)
	lost := conn.NotifyClose(make(chan *amqp.Error, 1))
	between.Cut()
	select {
	case <-lost:
	case <-time.After(time.Minute):
		t.Error("the loss was not reported")
	}
	if _, err := conn.Channel(); !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("a channel on it: %v", err)
	}
	between.Mute(true)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if conn, err := dial(ctx); conn != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent broker: %v, %v", conn, err)
	}
}

// counted counts the bytes that a socket was given.
type counted struct {
	net.Conn
	given *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	c.given.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// TestAckIsGivenToTheSocketAtOnce holds that no ack stays behind in the process, which the next message may kill.
func TestAckIsGivenToTheSocketAtOnce(t *testing.T) {
	t.Parallel()
	const n = 200
	queue := declared(t, topology.Quorum)
	publish(t, queue, "m", n)
	var given atomic.Int64
	conn, err := consumer.Dialer(brokerURL(t), amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		socket, err := net.Dial(network, addr)
		return counted{socket, &given}, err
	}})(t.Context())
	need(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	need(t, err)
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	need(t, err)
	for i := range n {
		d := <-deliveries
		before := given.Load()
		need(t, d.Ack(false))
		if given.Load() == before {
			t.Fatalf("ack %d returned before the socket had it", i)
		}
	}
}

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
