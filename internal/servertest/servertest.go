// Package servertest gives tests a RabbitMQ and a Redis, those at AMQP_URL and REDIS_URL or private ones, a private
// PostgreSQL and MariaDB, and programs of the project.
//
// A test that needs a server which is not installed fails.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
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
	postgres = &shared[*servers.Database]{start: func(ctx context.Context) (*servers.Database, error) {
		return servers.StartPostgreSQL(ctx, servers.DatabaseOptions{})
	}}
	maria = &shared[*servers.Database]{start: func(ctx context.Context) (*servers.Database, error) {
		return servers.StartMariaDB(ctx, servers.DatabaseOptions{})
	}}
)

// Run runs the tests, deletes their queues, stops the shared servers and looks for leaked goroutines. TestMain exits
// with its result.
func Run(m interface{ Run() int }) (code int) {
	code = m.Run()
	err := errors.Join(deleteLeftovers(), broker.close(), store.close(), postgres.close(), maria.close(),
		programs.close())
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

// Program builds a program of the project, such as cmd/strikes, once for all tests of a package, and returns its path.
// It has the race detector if the test has it: then it is made of packages that are built already.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := programs.build(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var programs built

type built struct {
	mu   sync.Mutex
	dir  string
	done map[string]bool
}

func (b *built) build(name string) (program string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "strikes-programs-"); err != nil {
			return "", err
		}
		b.done = map[string]bool{}
	}
	program = filepath.Join(b.dir, filepath.Base(name))
	if b.done[name] {
		return program, nil
	}
	args := []string{"build", "-ldflags=-s -w", "-o", program, "github.com/strikesmq/strikes/" + name}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race",
		Value: "true"}) {
		args = slices.Insert(args, 1, "-race")
	}
	if out, err := exec.CommandContext(context.Background(),
		"go", args...).CombinedOutput(); err != nil { //nolint:gosec // of ours
		return "", fmt.Errorf("building %s: %w: %s", name, err, out)
	}
	b.done[name] = true
	return program, nil
}

func (b *built) close() error {
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}

// Need fails the test unless err is nil. If err says that a server is not installed, it says what to do.
func Need(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, exec.ErrNotFound):
		t.Fatalf("%v; run make setup, or set AMQP_URL and REDIS_URL to servers for tests", err)
	default:
		t.Fatal(err)
	}
}

// Long skips a test that runs servers of its own again and again, ends many processes, or works for more than ten
// seconds. make test-long runs these tests; it sets STRIKES_LONG.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv("STRIKES_LONG") == "" {
		t.Skip("long; STRIKES_LONG=1 runs it")
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

// ManagementURL is the base of the shared broker's management API: with user and password, without a path or trailing
// slash. It is STRIKES_MANAGEMENT_URL, or port AMQP + 10000 of the broker at AMQP_URL.
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
	api := url.URL{Scheme: "http", User: url.UserPassword(uri.Username, uri.Password), Host: uri.Host + ":" +
		strconv.Itoa(uri.Port+10000)}
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

// PostgreSQL is the address of the shared PostgreSQL, HOST:PORT. Its user postgres needs no password.
func PostgreSQL(t testing.TB) string {
	t.Helper()
	return postgres.get(t).Addr
}

// MariaDB is the address of the shared MariaDB, HOST:PORT. Its user root needs no password. It has the
// database strikes.
func MariaDB(t testing.TB) string {
	t.Helper()
	return maria.get(t).Addr
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
