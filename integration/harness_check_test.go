package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestHarness holds what the other tests see through to what the servers say.
func TestHarness(t *testing.T) {
	t.Parallel()
	conn := dialBroker(t)
	major, minor := brokerVersion(t)
	if v := fmt.Sprint(conn.Properties["version"]); !strings.HasPrefix(v, fmt.Sprintf("%d.%d.", major, minor)) {
		t.Errorf("brokerVersion: %d.%d of %q", major, minor, v)
	}

	queue, exchange := uniqueName(t, "harness"), uniqueName(t, "harness")
	deleteLater(queue, exchange)
	publishTo(t, conn, queue, exchange)
	if n := queueDepth(t, queue); n != 3 {
		t.Errorf("queueDepth: %d of 3", n)
	}
	var got string
	for _, d := range getAll(t, queue) {
		got += string(d.Body)
	}
	if got != "012" {
		t.Errorf("getAll: %q", got)
	}
	proctest.Eventually(t, time.Minute, "an empty queue", func() bool { return queueDepth(t, queue) == 0 })
}

func publishTo(t *testing.T, conn *amqp.Connection, queue, exchange string) {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(queue, "", exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		c, err := ch.PublishWithDeferredConfirm(exchange, "", true, false, amqp.Publishing{Body: fmt.Append(nil, i)})
		if err != nil {
			t.Fatal(err)
		}
		if acked, err := c.WaitContext(t.Context()); !acked || err != nil {
			t.Fatal(acked, err)
		}
	}
}

func TestHarnessManagement(t *testing.T) {
	t.Parallel()
	defer http.DefaultClient.CloseIdleConnections()
	res, err := http.Get(managementURL(t) + "/api/overview")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
}

func TestHarnessPrivateServers(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	store := privateStore(t, servers.RedisOptions{})
	if broker := privateBroker(t, servers.RabbitMQOptions{}); broker.URL == brokerURL(t) || store.URL == redisURL(t) {
		t.Errorf("private and shared are the same: %s, %s", broker.URL, store.URL)
	}
	for _, u := range []string{store.URL, redisURL(t)} {
		opts, err := redis.ParseURL(u)
		if err != nil {
			t.Fatal(err)
		}
		rdb := redis.NewClient(opts)
		if err := rdb.Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}
}
