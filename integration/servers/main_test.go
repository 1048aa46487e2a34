// Package servers tests package internal/servers on real servers.
package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

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
	rabbit, err := servers.StartRabbitMQ(context.Background(), servers.RabbitMQOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	store, err := servers.StartRedis(context.Background(), servers.RedisOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("up", rabbit.URL, store.URL)
	select {}
}

// ownTemp is proctest.Temp where both servers are installed.
func ownTemp(t *testing.T) string {
	t.Helper()
	_, rabbit := servers.FindRabbitMQ()
	_, store := servers.FindRedis()
	servertest.Need(t, errors.Join(rabbit, store))
	return proctest.Temp(t)
}

// TestKilledParent is about the guard: Close is not called.
func TestKilledParent(t *testing.T) {
	servertest.Long(t)
	dir := ownTemp(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphan+"=1")
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	need(t, err)
	need(t, parent.Start())
	var rabbitURL, redisURL string
	if _, err := fmt.Fscanf(stdout, "up amqp://guest:guest@%s redis://%s\n", &rabbitURL, &redisURL); err != nil {
		t.Errorf("the servers of the parent are not up: %v", err)
	}
	if users := proctest.Users(t, dir); len(users) < 4 {
		t.Errorf("seen to run: %q; want at least two guards, epmd and RabbitMQ", users)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = parent.Wait() // it was killed
	proctest.NothingLeft(t, dir)
	for _, addr := range []string{rabbitURL, redisURL} {
		host, _, _ := strings.Cut(addr, "/")
		if conn, err := net.Dial("tcp", host); err == nil {
			t.Errorf("%s still listens: %v", addr, conn.Close())
		}
	}
}
