package servertest

import (
	"os"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
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
