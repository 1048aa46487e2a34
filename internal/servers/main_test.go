package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// orphan makes the test binary start one server of each kind, say so, and wait
// to be killed.
const orphan = "STRIKES_TEST_ORPHAN"

func TestMain(m *testing.M) {
	if os.Getenv(orphan) != "" {
		startAndWait()
	}
	goleak.VerifyTestMain(m)
}

func startAndWait() {
	rabbit, err := StartRabbitMQ(context.Background(), RabbitMQOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	store, err := StartRedis(context.Background(), RedisOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("up", rabbit.URL, store.URL)
	select {}
}

// needServers skips where RabbitMQ or Redis is not installed, but not under CI.
func needServers(t *testing.T) {
	t.Helper()
	_, rabbit := findRabbitMQ()
	_, store := findRedis()
	err := errors.Join(rabbit, store)
	if !supported {
		err = errors.ErrUnsupported
	}
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skipf("%v (make test installs it)", err)
	}
}

// ownTemp gives everything the test starts a temporary directory of its own,
// and checks at the end that nothing in it, and nobody who uses it, is left.
func ownTemp(t *testing.T) string {
	t.Helper()
	needServers(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() { wantNothingLeft(t, dir) })
	return dir
}

func wantNothingLeft(t *testing.T, dir string) {
	t.Helper()
	var left []string
	within(t, 20*time.Second, func() error {
		left = nil
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if left = append(left, usersOf(t, dir)...); len(left) > 0 {
			return fmt.Errorf("left behind: %q", left)
		}
		return nil
	})
}

// usersOf lists the processes that name dir in their command line or
// environment, as every child of this package does, but for the test itself.
func usersOf(t *testing.T, dir string) []string {
	t.Helper()
	out, err := exec.Command("ps", "axwwe", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var users []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, dir+string(filepath.Separator)) {
			users = append(users, line[:min(len(line), 200)])
		}
	}
	return users
}

// within polls until f returns nil.
func within(t *testing.T, limit time.Duration, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %v", limit, err)
		}
	}
}

// wantLoopbackOnly dials port on every address of this machine: where it is
// bound to 127.0.0.1, not even 127.0.0.2 answers.
func wantLoopbackOnly(t *testing.T, port string) {
	t.Helper()
	if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err != nil {
		t.Errorf("nobody listens: %v", err)
	} else {
		_ = conn.Close()
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	ips := []net.IP{net.IPv4(127, 0, 0, 2)}
	for _, addr := range addrs {
		if ipNet, ok := addr.(*net.IPNet); ok && ipNet.IP.IsGlobalUnicast() {
			ips = append(ips, ipNet.IP)
		}
	}
	for _, ip := range ips {
		if conn, err := net.DialTimeout("tcp", net.JoinHostPort(ip.String(), port), time.Second); err == nil {
			t.Errorf("port %s listens on %s too: %v", port, ip, conn.Close())
		}
	}
}

func start[S interface{ Close() error }, O any](t *testing.T, f func(context.Context, O) (S, error), opts O) S {
	t.Helper()
	s, err := f(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestKilledParent is the promise that needs the guard: nobody calls Close.
func TestKilledParent(t *testing.T) {
	dir := ownTemp(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphan+"=1")
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var rabbitURL, redisURL string
	if _, err := fmt.Fscanf(stdout, "up amqp://guest:guest@%s redis://%s\n", &rabbitURL, &redisURL); err != nil {
		t.Errorf("the parent did not say that its servers are up: %v", err)
	}
	if users := usersOf(t, dir); len(users) < 4 {
		t.Errorf("seen to run: %q; want at least two guards, epmd and RabbitMQ", users)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = parent.Wait() // it was killed
	wantNothingLeft(t, dir)
	for _, addr := range []string{rabbitURL, redisURL} {
		host, _, _ := strings.Cut(addr, "/")
		if conn, err := net.Dial("tcp", host); err == nil {
			t.Errorf("%s still listens: %v", addr, conn.Close())
		}
	}
}
