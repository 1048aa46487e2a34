package integration

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/servers"
)

// The servers that all tests of this package share: AMQP_URL and REDIS_URL
// where given, else private ones, started for the first test that asks.
var (
	sharedBroker = &shared[*servers.RabbitMQ]{start: func(ctx context.Context) (*servers.RabbitMQ, error) {
		return servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{Management: true})
	}}
	sharedStore = &shared[*servers.Redis]{start: func(ctx context.Context) (*servers.Redis, error) {
		return servers.StartRedis(ctx, servers.RedisOptions{})
	}}
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := errors.Join(sharedBroker.close(), sharedStore.close(), leaks(code)); err != nil {
		fmt.Fprintln(os.Stderr, "after the tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// leaks looks for goroutines left behind; after a failure they say nothing new.
func leaks(code int) error {
	if code != 0 {
		return nil
	}
	return goleak.Find()
}

type shared[S interface{ Close() error }] struct {
	start func(context.Context) (S, error)
	once  sync.Once
	it    S
	err   error
	up    bool
}

func (s *shared[S]) get(t testing.TB) S {
	t.Helper()
	s.once.Do(func() {
		s.it, s.err = s.start(context.Background())
		s.up = s.err == nil
	})
	need(t, s.err)
	return s.it
}

func (s *shared[S]) close() error {
	if !s.up {
		return nil
	}
	return s.it.Close()
}

// need fails the test unless err is nil; it skips it where no server is
// installed, but never under CI.
func need(t testing.TB, err error) {
	t.Helper()
	missing := errors.Is(err, exec.ErrNotFound) || errors.Is(err, errors.ErrUnsupported)
	switch {
	case err == nil:
	case missing && os.Getenv("CI") != "true":
		t.Skipf("%v (make test installs it; or set AMQP_URL and REDIS_URL)", err)
	default:
		t.Fatal(err)
	}
}

func brokerURL(t testing.TB) string {
	t.Helper()
	if u := os.Getenv("AMQP_URL"); u != "" {
		return u
	}
	return sharedBroker.get(t).URL
}

// managementURL is the base of the management API, with user and password, no
// path and no trailing slash: STRIKES_MANAGEMENT_URL, or what goes with
// brokerURL, for which a server's API port is its AMQP port + 10000.
func managementURL(t testing.TB) string {
	t.Helper()
	if u := os.Getenv("STRIKES_MANAGEMENT_URL"); u != "" {
		return u
	}
	given := os.Getenv("AMQP_URL")
	if given == "" {
		return sharedBroker.get(t).ManagementURL
	}
	uri, err := amqp.ParseURI(given)
	if err != nil {
		t.Fatalf("AMQP_URL: %v", err)
	}
	api := url.URL{
		Scheme: "http",
		User:   url.UserPassword(uri.Username, uri.Password),
		Host:   uri.Host + ":" + strconv.Itoa(uri.Port+10000),
	}
	return api.String()
}

func redisURL(t testing.TB) string {
	t.Helper()
	if u := os.Getenv("REDIS_URL"); u != "" {
		return u
	}
	return sharedStore.get(t).URL
}

// privateBroker starts a broker for this test alone, to be stopped and killed
// at will, whatever AMQP_URL says.
func privateBroker(t testing.TB, opts servers.RabbitMQOptions) *servers.RabbitMQ {
	t.Helper()
	return private(t, func(ctx context.Context) (*servers.RabbitMQ, error) { return servers.StartRabbitMQ(ctx, opts) })
}

// privateStore starts a store for this test alone, whatever REDIS_URL says.
func privateStore(t testing.TB, opts servers.RedisOptions) *servers.Redis {
	t.Helper()
	return private(t, func(ctx context.Context) (*servers.Redis, error) { return servers.StartRedis(ctx, opts) })
}

func private[S interface{ Close() error }](t testing.TB, start func(context.Context) (S, error)) S {
	t.Helper()
	s, err := start(t.Context())
	need(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// dialer is what Run and publisher.New take; the caller closes what it dials.
func dialer(t testing.TB) func(context.Context) (*amqp.Connection, error) {
	t.Helper()
	return consumer.Dialer(brokerURL(t), amqp.Config{})
}

// dialBroker's connection is closed when the test ends.
func dialBroker(t testing.TB) *amqp.Connection {
	t.Helper()
	conn, err := dialer(t)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
			t.Errorf("closing the connection: %v", err)
		}
	})
	return conn
}

func brokerVersion(t testing.TB) (major, minor int) {
	t.Helper()
	version, _ := dialBroker(t).Properties["version"].(string)
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("the broker's version %q: %v", version, err)
	}
	return major, minor
}

// uniqueName is for a queue or exchange: no other test, nor another run on the
// same broker, has it.
func uniqueName(t testing.TB, prefix string) string {
	t.Helper()
	return prefix + "." + uuid.NewString()
}

// deleteQueues deletes the queues when the test ends, full or not, used or not.
func deleteQueues(t testing.TB, names ...string) {
	t.Helper()
	atEnd(t, func(ch *amqp.Channel) (err error) {
		for _, name := range names {
			_, deleted := ch.QueueDelete(name, false, false, false)
			err = errors.Join(err, deleted)
		}
		return err
	})
}

// deleteExchanges deletes the exchanges when the test ends.
func deleteExchanges(t testing.TB, names ...string) {
	t.Helper()
	atEnd(t, func(ch *amqp.Channel) (err error) {
		for _, name := range names {
			err = errors.Join(err, ch.ExchangeDelete(name, false, false))
		}
		return err
	})
}

func atEnd(t testing.TB, f func(*amqp.Channel) error) {
	t.Helper()
	dial := dialer(t)
	t.Cleanup(func() {
		if err := onChannel(dial, f); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
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

// queueDepth counts the messages ready for delivery; unacked ones are not.
func queueDepth(t testing.TB, queue string) int {
	t.Helper()
	var depth int
	err := onChannel(dialer(t), func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		depth = q.Messages
		return err
	})
	if err != nil {
		t.Fatalf("depth of %q: %v", queue, err)
	}
	return depth
}

// getAll takes every ready message off the queue, in order.
func getAll(t testing.TB, queue string) []amqp.Delivery {
	t.Helper()
	var all []amqp.Delivery
	err := onChannel(dialer(t), func(ch *amqp.Channel) error {
		for {
			d, ok, err := ch.Get(queue, true)
			if err != nil || !ok {
				return err
			}
			all = append(all, d)
		}
	})
	if err != nil {
		t.Fatalf("getting from %q: %v", queue, err)
	}
	return all
}

// eventually polls cond until it holds, and fails the test after timeout.
func eventually(t testing.TB, timeout time.Duration, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", timeout, what)
		}
	}
}
