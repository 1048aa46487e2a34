package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/internal/servers"
)

// TestMain also makes the test binary act as strikes, for the scripts and for what starts itself.
func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" { // with the race detector on, every process that exits 0 would sleep for a second
		_ = os.Setenv("GORACE", quickExit)
	}
	testscript.Main(suite{m}, map[string]func(){"strikes": main})
}

const quickExit = "atexit_sleep_ms=0"

// suite puts the servers away after the tests.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	code := s.m.Run()
	if err := errors.Join(privateBroker.close(), privateStore.close()); err != nil {
		fmt.Fprintln(os.Stderr, "after the tests:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// The servers of those tests that need some: AMQP_URL and REDIS_URL where given, else private ones.
var (
	privateBroker = &lazily[*servers.RabbitMQ]{start: func() (*servers.RabbitMQ, error) {
		return servers.StartRabbitMQ(context.Background(), servers.RabbitMQOptions{Management: true})
	}}
	privateStore = &lazily[*servers.Redis]{start: func() (*servers.Redis, error) {
		return servers.StartRedis(context.Background(), servers.RedisOptions{})
	}}
)

// lazily starts a server when the first test asks for it.
type lazily[S interface{ Close() error }] struct {
	start func() (S, error)
	once  sync.Once
	it    S
	err   error
	up    bool
}

func (l *lazily[S]) get(t testing.TB) S {
	t.Helper()
	l.once.Do(func() {
		l.it, l.err = l.start()
		l.up = l.err == nil
	})
	missing := errors.Is(l.err, exec.ErrNotFound) || errors.Is(l.err, errors.ErrUnsupported)
	if missing && os.Getenv("CI") != "true" {
		t.Skipf("%v (make test installs it; or set AMQP_URL and REDIS_URL)", l.err)
	}
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.it
}

func (l *lazily[S]) close() error {
	if !l.up {
		return nil
	}
	return l.it.Close()
}

func brokerURL(t testing.TB) string {
	t.Helper()
	if u := os.Getenv("AMQP_URL"); u != "" {
		return u
	}
	return privateBroker.get(t).URL
}

// managementURL is the API of the broker at brokerURL.
func managementURL(t testing.TB) string {
	t.Helper()
	if u := os.Getenv("AMQP_URL"); u != "" {
		return connect.GuessManagement(u)
	}
	return privateBroker.get(t).ManagementURL
}

func storeURL(t testing.TB) string {
	t.Helper()
	if u := os.Getenv("REDIS_URL"); u != "" {
		return u
	}
	return privateStore.get(t).URL
}
