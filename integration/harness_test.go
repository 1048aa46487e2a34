package integration

import (
	"context"
	"errors"
	"net/url"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servertest"
)

func TestMain(m *testing.M) { os.Exit(servertest.Run(m)) }

// The servers that all tests of this package share.
var (
	brokerURL     = servertest.BrokerURL
	managementURL = servertest.ManagementURL
	redisURL      = servertest.StoreURL
)

// patientURL is redisURL for a test that is not about a slow store.
func patientURL(t testing.TB) string { return servertest.Patient(t, redisURL(t)) }

// Servers for one test alone, to be stopped and killed at will.
var (
	privateBroker = servertest.Broker
	privateStore  = servertest.Store
)

var deleteLater = servertest.DeleteLater

var need = servertest.Need

// errOf is the error of a call whose result the test does not need.
func errOf[T any](_ T, err error) error { return err }

// private starts a server for this test alone.
func private[S interface{ Close() error }](t testing.TB, start func(context.Context) (S, error)) S {
	t.Helper()
	return servertest.Own(t, func(ctx context.Context, _ struct{}) (S, error) { return start(ctx) }, struct{}{})
}

// proxied returns a proxy of a server, which ends with the test, and the server's URL through it.
func proxied(t testing.TB, server string) (*proxy.Proxy, string) {
	t.Helper()
	u, err := url.Parse(server)
	need(t, err)
	p, err := proxy.New(context.WithoutCancel(t.Context()), u.Host)
	need(t, err)
	t.Cleanup(p.Close)
	u.Host = p.Addr()
	return p, u.String()
}

// dialer returns a dial function for Run and publisher.New. The caller closes the connections.
func dialer(t testing.TB) func(context.Context) (*amqp.Connection, error) {
	t.Helper()
	return consumer.Dialer(brokerURL(t), amqp.Config{})
}

// dialBroker's connection is closed when the test ends.
func dialBroker(t testing.TB) *amqp.Connection {
	t.Helper()
	conn, err := dialer(t)(t.Context())
	need(t, err)
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
			t.Errorf("closing the connection: %v", err)
		}
	})
	return conn
}

// runConsumer runs a consumer until the function that it returns is called, or the test ends. It may end with some
// errors.
func runConsumer(t testing.TB, c consumer.Consumer, dial func(context.Context) (*amqp.Connection, error),
	may ...error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, dial) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil && !slices.ContainsFunc(may, func(one error) bool { return errors.Is(err, one) }) {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Run did not return")
		}
	})
	t.Cleanup(stop)
	return stop
}

func brokerVersion(t testing.TB) broker.Version {
	t.Helper()
	return broker.VersionOf(dialBroker(t))
}

// uniqueName is for a queue or exchange: no other test, nor another run on the
// same broker, has it.
func uniqueName(t testing.TB, prefix string) string {
	t.Helper()
	return prefix + "." + uuid.NewString()
}

// onChannel runs f on a channel and a connection of its own.
func onChannel(dial func(context.Context) (*amqp.Connection, error), f func(*amqp.Channel) error) (err error) {
	conn, err := dial(context.Background())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return f(ch)
}

// queueState counts the consumers of a queue, and the messages ready for delivery; unacked ones are not.
func queueState(dial func(context.Context) (*amqp.Connection, error), queue string) (state amqp.Queue, err error) {
	err = onChannel(dial, func(ch *amqp.Channel) (err error) {
		state, err = ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		return err
	})
	return state, err
}

func queueDepth(t testing.TB, queue string) int {
	t.Helper()
	state, err := queueState(dialer(t), queue)
	if err != nil {
		t.Fatalf("depth of %q: %v", queue, err)
	}
	return state.Messages
}

// getAll takes every ready message off the queue, in order.
func getAll(t testing.TB, queue string) []amqp.Delivery {
	t.Helper()
	all, err := takeAll(dialer(t), queue)
	if err != nil {
		t.Fatalf("getting from %q: %v", queue, err)
	}
	return all
}

// takeAll is getAll. After an error it returns the messages that it took before.
func takeAll(dial func(context.Context) (*amqp.Connection, error), queue string) (all []amqp.Delivery, err error) {
	err = onChannel(dial, func(ch *amqp.Channel) error {
		for {
			d, ok, err := ch.Get(queue, true)
			if err != nil || !ok {
				return err
			}
			all = append(all, d)
		}
	})
	return all, err
}

// eventually waits for a condition, for a minute at most.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	proctest.Eventually(t, time.Minute, what, cond)
}
