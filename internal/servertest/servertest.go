// Package servertest gives tests a RabbitMQ and a Redis, those at AMQP_URL and REDIS_URL or private ones, a private
// PostgreSQL and MariaDB, and programs of the project.
//
// A test that needs a server which is not installed fails.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	broker   = shared(servers.StartRabbitMQ, servers.RabbitMQOptions{Management: true})
	store    = shared(servers.StartRedis, servers.RedisOptions{})
	postgres = shared(servers.StartPostgreSQL, servers.DatabaseOptions{})
	maria    = shared(servers.StartMariaDB, servers.DatabaseOptions{})
)

// started has the shared servers to close.
var started struct {
	sync.Mutex
	all []io.Closer
}

func shared[S io.Closer, O any](start func(context.Context, O) (S, error), opts O) func(testing.TB) S {
	once := sync.OnceValues(func() (S, error) {
		s, err := start(context.Background(), opts)
		if err == nil {
			started.Lock()
			defer started.Unlock()
			started.all = append(started.all, s)
		}
		return s, err
	})
	return func(t testing.TB) S {
		t.Helper()
		s, err := once()
		Need(t, err)
		return s
	}
}

// Run runs the tests, deletes their queues, stops the shared servers and looks for leaked goroutines. TestMain exits
// with its result.
func Run(m interface{ Run() int }) (code int) {
	code = m.Run()
	err := errors.Join(deleteLeftovers(), os.RemoveAll(programs.dir), servers.CloseAll(started.all))
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

// programs are built in one directory.
var programs struct {
	sync.Mutex
	dir string
}

// Program builds a program of the project, such as cmd/strikes, once for all tests of a package, and returns its path.
func Program(t testing.TB, name string) (path string) {
	t.Helper()
	return Build(t, filepath.Base(name), "build", "github.com/strikesmq/strikes/"+name)
}

// Build has go build, or go test -c, make a program, once for all tests of a package, and returns its path.
func Build(t testing.TB, name, command string, args ...string) (path string) {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if programs.dir == "" {
		dir, err := os.MkdirTemp("", "strikes-programs-") //nolint:usetesting // for all tests of the package
		if err != nil {
			t.Fatal(err)
		}
		programs.dir = dir
	}
	path = filepath.Join(programs.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	build := Go(context.Background(), command, append([]string{"-ldflags=-s -w", "-o", path}, args...)...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v: %s", name, err, out)
	}
	return path
}

// Go returns go build or go test with the race detector if the test has it: then the packages are built already.
func Go(ctx context.Context, command string, args ...string) *exec.Cmd {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race",
		Value: "true"}) {
		args = slices.Insert(args, 0, "-race")
	}
	return exec.CommandContext(ctx, "go", slices.Insert(args, 0, command)...)
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
	return broker(t).URL
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
		return broker(t).ManagementURL
	}
	uri, err := amqp.ParseURI(given)
	if err != nil {
		t.Fatalf("AMQP_URL: %v", err)
	}
	api := url.URL{Scheme: "http", User: url.UserPassword(uri.Username, uri.Password), Host: uri.Host + ":" +
		strconv.Itoa(uri.Port+10000)}
	return api.String()
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
	return store(t).URL
}

// PostgreSQL is the address of the shared PostgreSQL, HOST:PORT. Its user postgres needs no password.
func PostgreSQL(t testing.TB) string {
	t.Helper()
	return postgres(t).Addr
}

// MariaDB is the address of the shared MariaDB, HOST:PORT. Its user root needs no password. It has the
// database strikes.
func MariaDB(t testing.TB) string {
	t.Helper()
	return maria(t).Addr
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
func Own[S io.Closer, O any](t testing.TB, start func(context.Context, O) (S, error), opts O) S {
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
