package integration

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/topology"
)

// topo is a connection with helpers for the tests of package topology.
type topo struct {
	t    *testing.T
	conn *amqp.Connection
}

func newTopo(t *testing.T) topo { return topoDial(t, brokerURL(t)) }

func topoDial(t *testing.T, url string) topo {
	t.Helper()
	conn, err := amqp.Dial(url)
	need(t, err)
	t.Cleanup(func() {
		if conn.IsClosed() {
			t.Error("the connection was closed by what the test did on it")
		}
		conn.Close()
	})
	return topo{t, conn}
}

func (b topo) before(major, minor int) bool { return broker.VersionOf(b.conn).Before(major, minor) }

// try runs f on a channel of its own.
func (b topo) try(f func(*amqp.Channel) error) error {
	ch, err := b.conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	return f(ch)
}

func (b topo) must(f func(*amqp.Channel) error) {
	b.t.Helper()
	need(b.t, b.try(f))
}

// name returns a new name. Queues and exchanges of that name, .dlq and .dlx included, are left to DeleteLater.
func (b topo) name() string {
	return b.named("topology." + uuid.NewString())
}

// named hands the name of a queue or exchange to DeleteLater, and returns it.
func (b topo) named(name string) string {
	deleteLater(b.t, name)
	return name
}

func (b topo) queue(name string, args amqp.Table) {
	b.t.Helper()
	b.must(func(ch *amqp.Channel) error {
		return errOf(ch.QueueDeclare(name, true, false, false, false, args))
	})
}

func (b topo) exchange(name, kind string) {
	b.t.Helper()
	b.must(func(ch *amqp.Channel) error { return ch.ExchangeDeclare(name, kind, true, false, false, false, nil) })
}

func (b topo) bind(queue, key, exchange string) {
	b.t.Helper()
	b.must(func(ch *amqp.Channel) error { return ch.QueueBind(queue, key, exchange, false, nil) })
}

func (b topo) declare(s topology.Spec) {
	b.t.Helper()
	need(b.t, topology.Declare(b.t.Context(), b.conn, s))
}

// publish sends a message of each body, persistent and confirmed.
func (b topo) publish(exchange, key string, bodies ...string) {
	b.t.Helper()
	var msgs []amqp.Publishing
	for _, body := range bodies {
		msgs = append(msgs, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
	}
	b.must(func(ch *amqp.Channel) error { return confirmed(ch, exchange, key, msgs...) })
}

// reject waits for a message and rejects it. On RabbitMQ 4.3 a nack with requeue does not count as a return.
func (b topo) reject(queue string, requeue bool) {
	b.t.Helper()
	b.must(func(ch *amqp.Channel) error { return getOne(b.t, ch, queue).Reject(requeue) })
}

// remove deletes a queue.
func (b topo) remove(queue string) {
	b.t.Helper()
	b.must(func(ch *amqp.Channel) error { return errOf(ch.QueueDelete(queue, false, false, false)) })
}

func (b topo) codes(needed topology.Need) []string {
	b.t.Helper()
	closer := inspect.Need{
		Queue: needed.Queue, MaxRetries: needed.MaxRetries, Ordered: needed.Ordered, AllowDrop: needed.AllowDrop,
		HoldQueue: needed.HoldQueue, Management: needed.Management,
	}
	findings, err := inspect.Inspect(b.t.Context(), b.conn, closer)
	need(b.t, err)
	codes := []string{}
	for _, f := range findings {
		codes = append(codes, f.Severity.String()+" "+f.Code)
	}
	return codes
}

func (b topo) want(what string, needed topology.Need, codes ...string) {
	b.t.Helper()
	if diff := cmp.Diff(append([]string{}, codes...), b.codes(needed)); diff != "" {
		b.t.Errorf("%s: findings (-want +got):\n%s", what, diff)
	}
	err := topology.Check(b.t.Context(), b.conn, needed)
	refuse := slices.ContainsFunc(codes, func(c string) bool { return strings.HasPrefix(c, "error ") })
	if refused := new(topology.RefusedError); errors.As(err, &refused) != refuse || !refuse && err != nil {
		b.t.Errorf("%s: Check returned %v", what, err)
	}
}

// topoAPI calls the management API with a body in JSON.
func topoAPI(t *testing.T, method, path string, body any) {
	t.Helper()
	content, err := json.Marshal(body)
	need(t, err)
	manage(t, method, "/api/"+path, string(content))
}

// policy sets a policy for one queue and waits for nothing: it shows late.
func (b topo) policy(queue string, definition map[string]any) {
	b.t.Helper()
	path := "policies/" + url.PathEscape(b.conn.Config.Vhost) + "/" + queue
	topoAPI(b.t, "PUT", path, map[string]any{"pattern": "^" + queue + "$", "apply-to": "queues", "definition": definition})
	b.t.Cleanup(func() { topoAPI(b.t, "DELETE", path, nil) })
}

// rejectsLand rejects a message and finds it in the dead-letter queue.
func (b topo) rejectsLand(queue, exchange, key string) {
	b.t.Helper()
	b.publish(exchange, key, "poison")
	ch, deliveries := subscribe(b.t, b.conn, queue, 1, nil) // a single-active-consumer queue may refuse basic.get
	defer ch.Close()
	select {
	case d := <-deliveries:
		need(b.t, d.Nack(false, false))
	case <-time.After(time.Minute):
		b.t.Fatalf("no delivery of %q within a minute", queue)
	}
	dead := getOne(b.t, ch, queue+".dlq")
	if string(dead.Body) != "poison" || dead.RoutingKey != key || dead.DeliveryMode != amqp.Persistent {
		b.t.Fatalf("in the dead-letter queue: %q, key %q, mode %d", dead.Body, dead.RoutingKey, dead.DeliveryMode)
	}
	deaths, _ := dead.Headers["x-death"].([]any)
	if len(deaths) != 1 || deaths[0].(amqp.Table)["reason"] != "rejected" || deaths[0].(amqp.Table)["queue"] != queue {
		b.t.Fatalf("x-death: %v", dead.Headers["x-death"])
	}
	need(b.t, dead.Nack(false, true))
}
