package integration

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/topology"
)

// TestSingleAcksOfALostConnection shows a fact on which consumer and deadletter rely when they end. A quorum queue may
// lose single acks that its channel keeps back, and has them all once a second consumer was begun and ended there.
// With -v it says how many it lost.
func TestSingleAcksOfALostConnection(t *testing.T) {
	t.Parallel()
	const n = 300
	queue := declared(t, topology.Quorum)
	for range 3 {
		for _, lands := range []bool{false, true} {
			publish(t, queue, "m", n)
			ackAndBreak(t, queue, n, lands)
			lost := returned(t, queue)
			t.Logf("landed %v: %d of %d acks lost", lands, lost, n)
			if lands && lost > 0 {
				t.Errorf("%d of %d acks were lost", lost, n)
			}
		}
	}
}

// ackAndBreak acks n deliveries, each on its own, and breaks the connection under them.
func ackAndBreak(t *testing.T, queue string, n int, lands bool) {
	t.Helper()
	conn, socket := brittle(t)
	ch, err := conn.Channel()
	need(t, err)
	deliveries, err := ch.Consume(queue, "first", false, false, false, false, nil)
	need(t, err)
	var tags []uint64
	for range n {
		select {
		case d := <-deliveries:
			tags = append(tags, d.DeliveryTag)
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d were delivered", len(tags), n)
		}
	}
	for _, tag := range tags {
		need(t, ch.Ack(tag, false))
	}
	if lands {
		need(t, errOf(ch.Consume(queue, "second", false, false, false, false, nil)))
		need(t, ch.Cancel("second", false))
	}
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	_ = socket.Close()
	<-closed
}

// TestAcksBehindAWaitingDelivery: acks that no run can cover, because an older delivery is not settled, are sent with
// one system call.
func TestAcksBehindAWaitingDelivery(t *testing.T) {
	t.Parallel()
	const n = 60
	var writes ackWrites
	queue := declared(t, topology.Quorum)
	publish(t, queue, "m", n)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var running atomic.Int32
	waits := make(chan struct{})
	c := consumer.Consumer{
		Queue: queue, Counter: counter.NewMemory(nil), Prefetch: n, Concurrency: n,
		Handler: func(_ context.Context, d amqp.Delivery) error {
			if running.Add(1) == n { // the others go on together
				close(waits)
			}
			<-waits
			if d.DeliveryTag == 1 {
				<-ctx.Done()
			}
			return nil
		},
	}
	conn, err := consumer.Dialer(brokerURL(t), amqp.Config{Dial: writes.dial})(ctx)
	need(t, err)
	defer conn.Close()
	ended := make(chan error)
	go func() { ended <- c.Consume(ctx, conn) }()
	eventually(t, "all acks but one sent", func() bool {
		acks, _ := writes.so()
		return acks == n-1
	})
	if _, most := writes.so(); most < 2 {
		t.Errorf("each of %d acks had a system call of its own", n-1)
	}
	stop()
	need(t, <-ended)
}

// ackWrites counts the acks that go to a socket.
type ackWrites struct {
	mu         sync.Mutex
	acks, most int // in all, and in one write
}

func (w *ackWrites) so() (acks, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acks, w.most
}

func (w *ackWrites) dial(network, addr string) (net.Conn, error) {
	socket, err := amqp.DefaultDial(10*time.Second)(network, addr)
	return ackSocket{socket, w}, err
}

type ackSocket struct {
	net.Conn
	writes *ackWrites
}

// basicAck begins the payload of such a frame: class and method.
var basicAck = []byte{0, 60, 0, 80}

func (s ackSocket) Write(b []byte) (int, error) {
	s.writes.mu.Lock()
	defer s.writes.mu.Unlock()
	acks := bytes.Count(b, basicAck)
	s.writes.acks, s.writes.most = s.writes.acks+acks, max(s.writes.most, acks)
	return s.Conn.Write(b)
}

// returned empties a queue that has no consumer any more, and counts its messages.
func returned(t *testing.T, queue string) (n int) {
	t.Helper()
	eventually(t, "the consumer gone", func() bool {
		state, err := queueState(dialer(t), queue)
		return err == nil && state.Consumers == 0
	})
	return purged(t, queue)
}

// TestReturnedWithoutAWord has a consumer end as a process that is killed does. The broker counts the message that it
// held only when it notices that.
func TestReturnedWithoutAWord(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		publish(t, queue, "m", 1)
		conn, socket := brittle(t)
		ch, err := conn.Channel()
		need(t, err)
		deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
		need(t, err)
		<-deliveries
		defer time.AfterFunc(100*time.Millisecond, func() { _ = socket.Close() }).Stop()
		if n, err := (&rig.Broker{URL: brokerURL(t)}).Returned(t.Context(), queue); err != nil || n != 1 {
			t.Errorf("%d messages are ready, %v", n, err)
		}
	})
}

// brittle returns a connection and its socket.
func brittle(t *testing.T) (conn *amqp.Connection, socket net.Conn) {
	t.Helper()
	conn, err := amqp.DialConfig(brokerURL(t), amqp.Config{Dial: func(network, addr string) (c net.Conn, err error) {
		socket, err = amqp.DefaultDial(10*time.Second)(network, addr)
		return socket, err
	}})
	need(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn, socket
}

// TestGhostOfAConsumerWithAPriority is a test of the broker. It fails once RabbitMQ is repaired. The defect is why the
// doctor warns of consumers with an x-priority (consumer-priority), and why no consumer here sets one. On a
// single-active-consumer queue one consumer has unacked messages, and another one replaces it. Both end, the first one
// without settling. From RabbitMQ 4.3 on, the first one is then active again, though it is gone, and a third one gets
// nothing.
func TestGhostOfAConsumerWithAPriority(t *testing.T) {
	t.Parallel()
	const prefetch, messages = 5, 20
	since43 := !brokerVersion(t).Before(4, 3)
	for _, tt := range []struct {
		name     string
		priority int32
		stops    bool
	}{{"with a priority", 10, since43}, {"without", 0, false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, queue := dialBroker(t), uniqueName(t, "ghost")
			need(t, topology.Declare(t.Context(), conn, topology.Spec{Queue: queue, SingleActiveConsumer: true}))
			publish(t, queue, "m", messages)

			first, held := subscribe(t, conn, queue, prefetch, nil)
			for range prefetch {
				<-held
			}
			second, taken := subscribe(t, conn, queue, prefetch, amqp.Table{broker.ArgPriority: tt.priority})
			need(t, first.Close())
			<-taken
			need(t, second.Close())

			_, last := subscribe(t, conn, queue, prefetch, nil)
			wait := time.Minute
			if tt.stops {
				wait = 5 * time.Second
			}
			select {
			case <-last:
				if tt.stops {
					t.Error("the queue delivers: this broker is repaired, so consumer-priority is a finding of older ones")
				}
			case <-time.After(wait):
				if !tt.stops {
					t.Errorf("no delivery in %v", wait)
				}
			}
		})
	}
}

// subscribe consumes from a queue on a channel of its own.
func subscribe(t *testing.T, conn *amqp.Connection, queue string, prefetch int, args amqp.Table) (*amqp.Channel,
	<-chan amqp.Delivery) {
	t.Helper()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Qos(prefetch, 0, false)
	}
	need(t, err)
	deliveries, err := ch.Consume(queue, "", false, false, false, false, args)
	need(t, err)
	return ch, deliveries
}
