package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
)

// orphan makes the test binary start one server of each kind, say so, and wait to be killed.
const orphan = "STRIKES_TEST_ORPHAN"

func startAndWait() {
	rabbit, brokerErr := servers.StartRabbitMQ(context.Background(), servers.RabbitMQOptions{})
	store, storeErr := servers.StartRedis(context.Background(), servers.RedisOptions{})
	if err := errors.Join(brokerErr, storeErr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("up", rabbit.DistPort(), rabbit.MapperPort(), rabbit.URL, store.URL)
	select {}
}

// TestKilledParent: servers listen on the loopback interface alone, and none outlives the process that started it.
func TestKilledParent(t *testing.T) {
	Long(t)
	_, noRabbit := servers.FindRabbitMQ()
	_, noStore := servers.FindRedis()
	Need(t, errors.Join(noRabbit, noStore))
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphan+"=1")
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	Need(t, err)
	Need(t, parent.Start())
	var dist, mapper, rabbitURL, redisURL string
	if _, err := fmt.Fscanf(stdout, "up %s %s amqp://guest:guest@%s redis://%s\n", &dist, &mapper, &rabbitURL,
		&redisURL); err != nil {
		t.Errorf("the servers of the parent are not up: %v", err)
	}
	for _, addr := range []string{rabbitURL, redisURL, "localhost:" + dist, "localhost:" + mapper} {
		hostPort, _, _ := strings.Cut(addr, "/")
		_, port, _ := strings.Cut(hostPort, ":")
		proctest.LoopbackOnly(t, port)
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
