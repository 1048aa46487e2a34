// Package servertest gives tests a RabbitMQ and a Redis: those at AMQP_URL and REDIS_URL, or private ones.
//
// A test that needs a server which is not installed is skipped; under CI=true it fails.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/internal/servers"
)

// The servers that the tests of a package share, started for the first test that needs one.
var (
	broker = &shared[*servers.RabbitMQ]{start: func(ctx context.Context) (*servers.RabbitMQ, error) {
		return servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{Management: true})
	}}
	store = &shared[*servers.Redis]{start: func(ctx context.Context) (*servers.Redis, error) {
		return servers.StartRedis(ctx, servers.RedisOptions{})
	}}
)

// Run runs the tests, deletes what they made, stops the shared servers and looks for leaked goroutines. TestMain exits with its result.
func Run(m interface{ Run() int }) (code int) {
	code = m.Run()
	err := errors.Join(deleteLeftovers(), broker.close(), store.close())
	http.DefaultClient.CloseIdleConnections() // to a server that other tests share

	if code == 0 { // after a failure, leaks are no news
		err = errors.Join(err, goleak.Find(dialling))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "after the tests:", err)
		code = max(code, 1)
	}
	return code
}

// dialling is a closed pool of go-redis: it sees that it is closed within a second.
var dialling = goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")

type server interface{ Close() error }

type shared[S server] struct {
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
	Need(t, s.err)
	return s.it
}

func (s *shared[S]) close() error {
	if !s.up {
		return nil
	}
	return s.it.Close()
}

// Need fails the test unless err is nil. It skips the test if err says that a server is not installed, except under CI=true.
func Need(t testing.TB, err error) {
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

// BrokerURL is the URL of the shared RabbitMQ.
func BrokerURL(t testing.TB) string {
	t.Helper()
	if u := os.Getenv("AMQP_URL"); u != "" {
		return u
	}
	return broker.get(t).URL
}

// ManagementURL is the base of the shared broker's management API: with user and password, without a path or trailing slash.
// It is STRIKES_MANAGEMENT_URL, or port AMQP + 10000 of the broker at AMQP_URL.
func ManagementURL(t testing.TB) string {
	t.Helper()
	if u := os.Getenv("STRIKES_MANAGEMENT_URL"); u != "" {
		return u
	}
	given := os.Getenv("AMQP_URL")
	if given == "" {
		return broker.get(t).ManagementURL
	}
	uri, err := amqp.ParseURI(given)
	if err != nil {
		t.Fatalf("AMQP_URL: %v", err)
	}
	api := url.URL{Scheme: "http", User: url.UserPassword(uri.Username, uri.Password), Host: uri.Host + ":" + strconv.Itoa(uri.Port+10000)}
	return api.String()
}

// PatientStoreURL is StoreURL for a test that is not about a slow store.
func PatientStoreURL(t testing.TB) string {
	t.Helper()
	return Patient(t, StoreURL(t))
}

// Patient is the URL of a store with timeouts that a busy machine does not reach.
func Patient(t testing.TB, store string) string {
	t.Helper()
	u, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for _, name := range []string{"read_timeout", "write_timeout", "dial_timeout"} {
		q.Set(name, "1m")
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// StoreURL is the URL of the shared Redis.
func StoreURL(t testing.TB) string {
	t.Helper()
	if u := os.Getenv("REDIS_URL"); u != "" {
		return u
	}
	return store.get(t).URL
}

// Broker starts a RabbitMQ for this test alone, whatever AMQP_URL is.
func Broker(t testing.TB, opts servers.RabbitMQOptions) *servers.RabbitMQ {
	t.Helper()
	return Own(t, servers.StartRabbitMQ, opts)
}

// Store starts a Redis for this test alone, whatever REDIS_URL is.
func Store(t testing.TB, opts servers.RedisOptions) *servers.Redis {
	t.Helper()
	return Own(t, servers.StartRedis, opts)
}

// Own starts a server, and closes it when the test ends.
func Own[S server, O any](t testing.TB, start func(context.Context, O) (S, error), opts O) S {
	t.Helper()
	s, err := start(t.Context(), opts)
	Need(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
