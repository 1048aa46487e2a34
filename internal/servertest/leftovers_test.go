package servertest

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

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv(orphan) != "" {
		startAndWait()
	}
	os.Exit(Run(m))
}

func TestLeftovers(t *testing.T) {
	Long(t)
	broker, management := BrokerURL(t), ManagementURL(t)
	t.Setenv("AMQP_URL", broker)
	t.Setenv("STRIKES_MANAGEMENT_URL", management)
	own, name := VirtualHost(t), "servertest."+uuid.NewString()
	conn := dial(t, broker)
	declare(t, conn, name)
	declare(t, dial(t, own), name)
	t.Run("a test", func(t *testing.T) { DeleteLater(t, name) })
	if !exists(t, conn, name) {
		t.Fatal("the queue was deleted at once")
	}
	if err := deleteLeftovers(); err != nil {
		t.Fatal(err)
	}
	if exists(t, conn, name) || exists(t, conn, name+".dlq") {
		t.Error("a queue is left")
	}
	if conn, err := amqp.Dial(own); err == nil {
		conn.Close()
		t.Error("the virtual host is left")
	}
}

func dial(t *testing.T, url string) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func declare(t *testing.T, conn *amqp.Connection, name string) {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{name, name + ".dlq"} {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func exists(t *testing.T, conn *amqp.Connection, queue string) bool {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	_, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	return err == nil
}

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
		loopbackOnly(t, port)
	}
	if seen := users(t, dir); len(seen) < 4 {
		t.Errorf("seen to run: %q; want at least two guards, epmd and RabbitMQ", seen)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = parent.Wait() // it was killed
	nothingLeft(t, dir)
	for _, addr := range []string{rabbitURL, redisURL} {
		host, _, _ := strings.Cut(addr, "/")
		if conn, err := net.Dial("tcp", host); err == nil {
			t.Errorf("%s still listens: %v", addr, conn.Close())
		}
	}
}

// nothingLeft fails the test if files in dir, or processes that use it, do not disappear.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	proctest.Within(t, time.Minute, func() error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if left = append(left, users(t, dir)...); len(left) > 0 {
			return fmt.Errorf("left behind: %q", left)
		}
		return nil
	})
}

// users lists the processes with dir in their command line or environment, as every child of package servers has.
func users(t *testing.T, dir string) (all []string) {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "ps", "axwwe", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, dir+string(filepath.Separator)) {
			all = append(all, line[:min(len(line), 200)])
		}
	}
	return all
}

// loopbackOnly dials port on every address of this machine: where it is bound to 127.0.0.1, not even 127.0.0.2 answers.
func loopbackOnly(t *testing.T, port string) {
	t.Helper()
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:"+port); err != nil {
		t.Errorf("no listener: %v", err)
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
		if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(),
			"tcp", net.JoinHostPort(ip.String(), port)); err == nil {
			t.Errorf("port %s listens on %s too: %v", port, ip, conn.Close())
		}
	}
}
