package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/topology"
)

// topo is a connection with what the tests of package topology do on it.
type topo struct {
	t    *testing.T
	conn *amqp.Connection
}

func newTopo(t *testing.T) topo { return topoDial(t, brokerURL(t)) }

func topoDial(t *testing.T, url string) topo {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if conn.IsClosed() {
			t.Error("the connection was closed by what the test did on it")
		}
		conn.Close()
	})
	return topo{t, conn}
}

func (b topo) before(major, minor int) bool {
	b.t.Helper()
	release, _ := b.conn.Properties["version"].(string)
	var x, y int
	if _, err := fmt.Sscanf(release, "%d.%d", &x, &y); err != nil {
		b.t.Fatalf("the broker's version %q: %v", release, err)
	}
	return x < major || x == major && y < minor
}

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
	if err := b.try(f); err != nil {
		b.t.Fatal(err)
	}
}

// name returns a new name; queues and exchanges of that name, .dlq and .dlx
// included, are deleted when the test ends.
func (b topo) name() string {
	name := "topology." + uuid.NewString()
	b.deletes(name)
	return name
}

func (b topo) deletes(name string) {
	b.t.Cleanup(func() {
		for _, n := range []string{name, name + ".dlq"} {
			b.must(func(ch *amqp.Channel) error { _, err := ch.QueueDelete(n, false, false, false); return err })
		}
		for _, n := range []string{name, name + ".dlx"} {
			b.must(func(ch *amqp.Channel) error { return ch.ExchangeDelete(n, false, false) })
		}
	})
}

func (b topo) queue(name string, args amqp.Table) {
	b.t.Helper()
	b.must(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		return err
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
	if err := topology.Declare(b.t.Context(), b.conn, s); err != nil {
		b.t.Fatal(err)
	}
}

// publish sends a message of each body, persistent and confirmed.
func (b topo) publish(exchange, key string, bodies ...string) {
	b.t.Helper()
	b.must(func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		for _, body := range bodies {
			msg := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
			confirm, err := ch.PublishWithDeferredConfirmWithContext(b.t.Context(), exchange, key, true, false, msg)
			if err != nil {
				return err
			}
			if acked, err := confirm.WaitContext(b.t.Context()); err != nil || !acked {
				return fmt.Errorf("publish %q: acked %v, %w", body, acked, err)
			}
		}
		return nil
	})
}

// get waits for a message, unacked.
func (b topo) get(ch *amqp.Channel, queue string) (amqp.Delivery, bool) {
	b.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		d, ok, err := ch.Get(queue, false)
		if err != nil {
			b.t.Fatal(err)
		}
		if ok {
			return d, true
		}
	}
	return amqp.Delivery{}, false
}

func (b topo) codes(need topology.Need) []string {
	b.t.Helper()
	findings, err := topology.Inspect(b.t.Context(), b.conn, need)
	if err != nil {
		b.t.Fatal(err)
	}
	codes := []string{}
	for _, f := range findings {
		codes = append(codes, f.Severity.String()+" "+f.Code)
	}
	return codes
}

func (b topo) want(what string, need topology.Need, codes ...string) {
	b.t.Helper()
	if diff := cmp.Diff(append([]string{}, codes...), b.codes(need)); diff != "" {
		b.t.Errorf("%s: findings (-want +got):\n%s", what, diff)
	}
	err := topology.Check(b.t.Context(), b.conn, need)
	refuse := slices.ContainsFunc(codes, func(c string) bool { return strings.HasPrefix(c, "error ") })
	if refused := new(topology.RefusedError); errors.As(err, &refused) != refuse || !refuse && err != nil {
		b.t.Errorf("%s: Check returned %v", what, err)
	}
}

// errAbsent: the management API answered 404.
var errAbsent = errors.New("not found")

// topoAPI calls the management API, which must agree.
func topoAPI(t *testing.T, method, path string, body any) {
	t.Helper()
	if err := topoAsk(t, method, path, body); err != nil {
		t.Fatal(err)
	}
}

func topoAsk(t *testing.T, method, path string, body any) error {
	t.Helper()
	base, err := url.Parse(managementURL(t))
	if err != nil {
		t.Fatal(err)
	}
	user := base.User
	base.User = nil
	content, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(method, base.String()+"/api/"+path, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := user.Password()
	req.SetBasicAuth(user.Username(), password)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s %s: %w", method, path, errAbsent)
	case res.StatusCode >= 300:
		return fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	return nil
}

// policy sets a policy for one queue and waits for nothing: it shows late.
func (b topo) policy(queue string, definition map[string]any) {
	b.t.Helper()
	path := "policies/" + url.PathEscape(b.conn.Config.Vhost) + "/" + queue
	topoAPI(b.t, "PUT", path, map[string]any{"pattern": "^" + queue + "$", "apply-to": "queues", "definition": definition})
	b.t.Cleanup(func() { topoAPI(b.t, "DELETE", path, nil) })
}

// The rules must say of a queue what the broker does with it.
func TestTopologyRequeuePosition(t *testing.T) {
	b := newTopo(t)
	const head, tail, gone = "1 2 3", "2 3 1", "2 3"
	byVersion := func(v3, v40, v43 string) string {
		switch {
		case b.before(4, 0):
			return v3
		case b.before(4, 3):
			return v40
		}
		return v43
	}
	tests := []struct {
		name string
		args amqp.Table
		want string
	}{
		{"classic", amqp.Table{"x-queue-type": "classic"}, head},
		{"classic, single active consumer", amqp.Table{"x-queue-type": "classic", "x-single-active-consumer": true}, head},
		{"quorum, no limit", amqp.Table{"x-queue-type": "quorum"}, byVersion(tail, head, head)},
		{"quorum, limit 50", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 50}, head},
		{"quorum, limit 50, single active consumer", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 50, "x-single-active-consumer": true}, head},
		{"quorum, limit -1", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": -1}, byVersion(gone, tail, head)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := topo{t, b.conn}
			q := b.name()
			b.queue(q, tt.args)
			b.publish("", q, "1", "2", "3")
			b.must(func(ch *amqp.Channel) error {
				queue, err := topoConsume(ch, q)
				if err != nil {
					return err
				}
				d, err := topoNext(queue)
				if err != nil {
					return err
				}
				if err := d.Nack(false, true); err != nil {
					return err
				}
				var got []string
				for len(got) < len(strings.Fields(tt.want)) {
					d, err := topoNext(queue)
					if err != nil {
						return fmt.Errorf("after %q: %w", got, err)
					}
					got = append(got, string(d.Body))
					if err := d.Ack(false); err != nil {
						return err
					}
				}
				b.publish("", q, "end") // shows that nothing else was left
				if d, err := topoNext(queue); err != nil || string(d.Body) != "end" {
					t.Errorf("after %q came %q, %v", got, d.Body, err)
				}
				if order := strings.Join(got, " "); order != tt.want {
					t.Errorf("after a requeue of 1: %s, want %s", order, tt.want)
				}
				return nil
			})
			refused := slices.ContainsFunc(b.codes(topology.Need{Queue: q, MaxRetries: 3, AllowDrop: true}), func(code string) bool {
				return code == "error requeue-to-tail" || code == "error requeue-discards"
			})
			if refused != (tt.want != head) {
				t.Errorf("refused: %v, and a requeued message goes to: %s", refused, tt.want)
			}
		})
	}
}

// topoConsume has one message at a time delivered. A quorum queue with a single
// active consumer refuses basic.get.
func topoConsume(ch *amqp.Channel, queue string) (<-chan amqp.Delivery, error) {
	if err := ch.Qos(1, 0, false); err != nil {
		return nil, err
	}
	return ch.Consume(queue, "", false, false, false, false, nil)
}

func topoNext(queue <-chan amqp.Delivery) (amqp.Delivery, error) {
	select {
	case d, ok := <-queue:
		if !ok {
			return d, errors.New("the channel was closed")
		}
		return d, nil
	case <-time.After(5 * time.Second):
		return amqp.Delivery{}, errors.New("no delivery within 5 s")
	}
}

func topoSpecs(queue string) map[string]topology.Spec {
	return map[string]topology.Spec{
		"quorum":                          {Queue: queue},
		"quorum, single active consumer":  {Queue: queue, SingleActiveConsumer: true},
		"classic":                         {Queue: queue, Type: topology.Classic},
		"classic, single active consumer": {Queue: queue, Type: topology.Classic, SingleActiveConsumer: true},
	}
}

func TestTopologyDeclared(t *testing.T) {
	for name := range topoSpecs("") {
		t.Run(name, func(t *testing.T) {
			b := newTopo(t)
			q, source := b.name(), b.name()
			b.exchange(source, "topic")
			spec := topoSpecs(q)[name]
			spec.Bindings = []topology.Binding{{Exchange: source, Key: "order.*"}}
			b.declare(spec)
			b.declare(spec) // again: nothing changes

			need := topology.Need{Queue: q, MaxRetries: 3, Ordered: spec.SingleActiveConsumer}
			b.want("over AMQP", need, "warning bindings-unknown")
			need.Management = managementURL(t)
			b.want("with the management API", need)
			if !spec.SingleActiveConsumer {
				need.Ordered = true
				b.want("order", need, "error not-single-active")
			}
			b.rejectsLand(q, source, "order.new")
		})
	}
}

// rejectsLand rejects a message and finds it in the dead-letter queue.
func (b topo) rejectsLand(queue, exchange, key string) {
	b.t.Helper()
	b.publish(exchange, key, "poison")
	b.must(func(ch *amqp.Channel) error {
		deliveries, err := topoConsume(ch, queue)
		if err != nil {
			return err
		}
		d, err := topoNext(deliveries)
		if err != nil {
			return err
		}
		if err := d.Nack(false, false); err != nil {
			return err
		}
		dead, ok := b.get(ch, queue+".dlq")
		if !ok || string(dead.Body) != "poison" || dead.RoutingKey != key || dead.DeliveryMode != amqp.Persistent {
			return fmt.Errorf("in the dead-letter queue: %v, %q, key %q, mode %d", ok, dead.Body, dead.RoutingKey, dead.DeliveryMode)
		}
		deaths, _ := dead.Headers["x-death"].([]any)
		if len(deaths) != 1 || deaths[0].(amqp.Table)["reason"] != "rejected" || deaths[0].(amqp.Table)["queue"] != queue {
			return fmt.Errorf("x-death: %v", dead.Headers["x-death"])
		}
		return dead.Nack(false, true)
	})
}

// Looking at a dead letter must not use it up.
func TestTopologyDeadLettersMayBeLookedAt(t *testing.T) {
	looks := map[string]func(*amqp.Channel, amqp.Delivery) error{
		"get and nack":   func(_ *amqp.Channel, d amqp.Delivery) error { return d.Nack(false, true) },
		"get and reject": func(_ *amqp.Channel, d amqp.Delivery) error { return d.Reject(true) },
		"get and close":  func(ch *amqp.Channel, _ amqp.Delivery) error { return ch.Close() },
	}
	for _, kind := range []topology.Type{topology.Quorum, topology.Classic} {
		b := newTopo(t)
		q := b.name()
		b.declare(topology.Spec{Queue: q, Type: kind})
		b.publish("", q+".dlq", "1", "2")
		for how, look := range looks {
			for i := range 30 {
				b.must(func(ch *amqp.Channel) error {
					d, ok := b.get(ch, q+".dlq")
					if !ok || string(d.Body) != "1" {
						return fmt.Errorf("%s, %s, look %d: got %v, %q", kind, how, i+1, ok, d.Body)
					}
					return look(ch, d)
				})
			}
		}
	}
}

// A limit of N lets a message be delivered N+1 times.
func TestTopologyDeliveryLimit(t *testing.T) {
	b := newTopo(t)
	q := b.name()
	b.declare(topology.Spec{Queue: q, DeliveryLimit: 4})
	b.publish("", q, "poison")
	for i := range 5 {
		b.must(func(ch *amqp.Channel) error {
			d, ok := b.get(ch, q)
			if !ok {
				return fmt.Errorf("gone after %d deliveries", i)
			}
			return d.Reject(true)
		})
	}
	b.must(func(ch *amqp.Channel) error {
		if _, ok := b.get(ch, q+".dlq"); !ok {
			return errors.New("not dead-lettered after the fifth return")
		}
		return nil
	})
	b.want("no room", topology.Need{Queue: q, MaxRetries: 1}, "error delivery-limit-low", "warning bindings-unknown")
	b.want("little room", topology.Need{Queue: q}, "warning delivery-limit-tight", "warning bindings-unknown")
}

func TestTopologyDeadLetterWay(t *testing.T) {
	api := managementURL(t)
	classic := func(pairs ...any) amqp.Table {
		args := amqp.Table{"x-queue-type": "classic"}
		for i := 0; i < len(pairs); i += 2 {
			args[pairs[i].(string)] = pairs[i+1]
		}
		return args
	}
	const dlx, dlk = "x-dead-letter-exchange", "x-dead-letter-routing-key"
	tests := []struct {
		name         string
		set          func(b topo, q string)
		amqp, manage []string // findings without and with the management API
	}{
		{"no exchange", func(b topo, q string) { b.queue(q, classic()) },
			[]string{"error dead-letter-unproven"}, []string{"error no-dead-letter-exchange"}},
		{"exchange that does not exist", func(b topo, q string) { b.queue(q, classic(dlx, q+".dlx")) },
			[]string{"error dead-letter-exchange-missing"}, []string{"error dead-letter-exchange-missing"}},
		{"exchange with nothing bound", func(b topo, q string) {
			b.exchange(q+".dlx", "fanout")
			b.queue(q, classic(dlx, q+".dlx"))
		}, []string{"warning bindings-unknown"}, []string{"error dead-letter-unbound"}},
		{"exchange with another key bound", func(b topo, q string) {
			b.exchange(q+".dlx", "direct")
			b.queue(q+".dlq", nil)
			b.bind(q+".dlq", "other", q+".dlx")
			b.queue(q, classic(dlx, q+".dlx", dlk, "this"))
		}, []string{"warning bindings-unknown"}, []string{"error dead-letter-unbound"}},
		{"exchange that leads back", func(b topo, q string) {
			b.exchange(q+".dlx", "fanout")
			b.queue(q, classic(dlx, q+".dlx"))
			b.bind(q, "", q+".dlx")
		}, []string{"warning bindings-unknown"}, []string{"error dead-letter-loop"}},
		{"direct exchange, its key bound", func(b topo, q string) {
			b.exchange(q+".dlx", "direct")
			b.queue(q+".dlq", nil)
			b.bind(q+".dlq", "this", q+".dlx")
			b.queue(q, classic(dlx, q+".dlx", dlk, "this"))
		}, []string{"warning bindings-unknown"}, nil},
		{"default exchange", func(b topo, q string) {
			b.queue(q+".dlq", nil)
			b.queue(q, classic(dlx, "", dlk, q+".dlq"))
		}, nil, nil},
		{"default exchange, no such queue", func(b topo, q string) { b.queue(q, classic(dlx, "", dlk, q+".dlq")) },
			[]string{"error dead-letter-queue-missing"}, []string{"error dead-letter-queue-missing"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for the API
			b := newTopo(t)
			q := b.name()
			tt.set(b, q)
			b.want("over AMQP", topology.Need{Queue: q, MaxRetries: 3}, tt.amqp...)
			b.want("with the management API", topology.Need{Queue: q, MaxRetries: 3, Management: api}, tt.manage...)
			if err := topology.Check(t.Context(), b.conn, topology.Need{Queue: q, AllowDrop: true, Management: api}); err != nil {
				t.Errorf("AllowDrop: %v", err)
			}
		})
	}
}

func TestTopologyByPolicy(t *testing.T) {
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newTopo(t)
			q := b.name()
			b.exchange(q+".dlx", "fanout")
			b.queue(q+".dlq", amqp.Table{"x-queue-type": kind})
			b.bind(q+".dlq", "", q+".dlx")
			definition := map[string]any{"dead-letter-exchange": q + ".dlx"}
			if kind == "quorum" {
				definition["delivery-limit"] = 500
			}
			b.policy(q, definition)
			b.queue(q, amqp.Table{"x-queue-type": kind})

			need := topology.Need{Queue: q, MaxRetries: 3, Management: managementURL(t)}
			if err := topology.Check(t.Context(), b.conn, need); err != nil {
				t.Errorf("what the policy sets is not seen: %v", err)
			}
			b.rejectsLand(q, "", q)
			need.Management = ""
			var refused *topology.RefusedError
			if err := topology.Check(t.Context(), b.conn, need); !errors.As(err, &refused) || !strings.Contains(err.Error(), "Management") {
				t.Errorf("over AMQP: got %v, want a refusal that names Management", err)
			}
		})
	}
}

// A policy with one key that is foreign to the type of the queue is not applied
// at all.
func TestTopologyForeignPolicy(t *testing.T) {
	b := newTopo(t)
	q := b.name()
	b.exchange(q+".dlx", "fanout")
	b.queue(q+".dlq", nil)
	b.bind(q+".dlq", "", q+".dlx")
	b.policy(q, map[string]any{"dead-letter-exchange": q + ".dlx", "delivery-limit": 500})
	b.queue(q, amqp.Table{"x-queue-type": "classic"})
	b.want("classic queue", topology.Need{Queue: q, Management: managementURL(t)}, "error no-dead-letter-exchange")
}

func TestTopologyDeclareMismatch(t *testing.T) {
	b := newTopo(t)
	q := b.name()
	b.queue(q, amqp.Table{"x-queue-type": "classic", "x-max-length": 10})
	err := topology.Declare(t.Context(), b.conn, topology.Spec{Queue: q})
	for _, w := range []string{
		`topology: declare queue "` + q + `"`, `x-queue-type "classic", not "quorum"`, "x-max-length 10, not unset",
		"x-delivery-limit unset, not 1000", "declared before it: exchange ",
	} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in the error: %v", w, err)
		}
	}
	other := b.name()
	b.exchange(other+".dlx", "direct")
	err = topology.Declare(t.Context(), b.conn, topology.Spec{Queue: other})
	for _, w := range []string{`declare exchange "` + other + `.dlx"`, "'type'", "'direct'", "nothing was declared"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in the error: %v", w, err)
		}
	}
}

func TestTopologyDeclareAtOnce(t *testing.T) {
	b := newTopo(t)
	q := b.name()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := topology.Declare(t.Context(), b.conn, topology.Spec{Queue: q}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b.want("afterwards", topology.Need{Queue: q}, "warning bindings-unknown")
}

func TestTopologyNotFound(t *testing.T) {
	b := newTopo(t)
	q := b.name()
	err := topology.Check(t.Context(), b.conn, topology.Need{Queue: q})
	if !errors.Is(err, topology.ErrQueueNotFound) || !strings.Contains(err.Error(), fmt.Sprintf("%q in virtual host", q)) {
		t.Errorf("got %v", err)
	}
}

// Reading a queue over AMQP rests on an argument that keeps a redeclaration
// from creating the queue, and is not compared when it exists.
func TestTopologyProbeCreatesNothing(t *testing.T) {
	b := newTopo(t)
	for _, args := range []amqp.Table{{}, {"x-queue-type": "classic"}, {"x-queue-type": "quorum"}} {
		q := b.name()
		probe := amqp.Table{"x-max-age": int32(-1)}
		for k, v := range args {
			probe[k] = v
		}
		declare := func(args amqp.Table) error {
			return b.try(func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclare(q, true, false, false, false, args)
				return err
			})
		}
		var reply *amqp.Error
		if err := declare(probe); !errors.As(err, &reply) || reply.Code != amqp.PreconditionFailed {
			t.Errorf("%v, absent: got %v, want 406", args, err)
		}
		err := b.try(func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(q, true, false, false, false, nil)
			return err
		})
		if !errors.As(err, &reply) || reply.Code != amqp.NotFound {
			t.Errorf("%v: the probe created a queue: %v", args, err)
		}
		if err := declare(args); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		if err := declare(probe); err != nil {
			t.Errorf("%v, existing: got %v, want no difference", args, err)
		}
	}
}

// A queue that is deleted while it is being read must not come back.
func TestTopologyInspectCreatesNothing(t *testing.T) {
	b, other := newTopo(t), newTopo(t)
	for range 20 {
		q := b.name()
		b.queue(q, amqp.Table{"x-dead-letter-exchange": "", "x-max-length": 10, "x-max-priority": 5, "x-message-ttl": 60000})
		var deleting sync.WaitGroup
		deleting.Go(func() {
			if err := other.try(func(ch *amqp.Channel) error { _, err := ch.QueueDelete(q, false, false, false); return err }); err != nil {
				t.Error(err)
			}
		})
		if _, err := topology.Inspect(t.Context(), b.conn, topology.Need{Queue: q}); err != nil && !errors.Is(err, topology.ErrQueueNotFound) {
			t.Error(err)
		}
		deleting.Wait()
		if _, err := topology.Inspect(t.Context(), b.conn, topology.Need{Queue: q}); !errors.Is(err, topology.ErrQueueNotFound) {
			t.Fatalf("after the queue was deleted: %v", err)
		}
	}
}

func TestTopologyNames(t *testing.T) {
	long := "topology." + strings.Repeat("settlement.", 20) + uuid.NewString()[:8]
	for name, want := range map[string][]string{
		long:                          {"warning bindings-unknown"},
		"größe a+b c/%2F 'x'?#":       {"warning bindings-unknown"},
		strings.Repeat("größe.", 20):  {"error arguments-unknown"},
		"but current is none' of 'x'": {"warning bindings-unknown"},
	} {
		b := newTopo(t)
		b.deletes(name)
		b.declare(topology.Spec{Queue: name})
		b.want(name+" over AMQP", topology.Need{Queue: name, MaxRetries: 3}, want...)
		b.want(name+" with the management API", topology.Need{Queue: name, MaxRetries: 3, Management: managementURL(t)})
	}
}

func TestTopologyExclusive(t *testing.T) {
	b, owner := newTopo(t), newTopo(t)
	q := "topology." + uuid.NewString()
	owner.must(func(ch *amqp.Channel) error { _, err := ch.QueueDeclare(q, false, false, true, false, nil); return err })
	b.want("of another connection", topology.Need{Queue: q}, "error exclusive")
	owner.want("of this connection", topology.Need{Queue: q}, "error exclusive")
}

func TestTopologyLifetime(t *testing.T) {
	b := newTopo(t)
	q := b.name()
	b.must(func(ch *amqp.Channel) error { _, err := ch.QueueDeclare(q, true, true, false, false, nil); return err })
	b.want("auto-delete", topology.Need{Queue: q, AllowDrop: true}, "warning auto-delete")
	stream := b.name()
	b.queue(stream, amqp.Table{"x-queue-type": "stream"})
	b.want("stream", topology.Need{Queue: stream, AllowDrop: true}, "error queue-type")
}

// reader connects as a user who may read, and nothing else.
func (b topo) reader() topo {
	b.t.Helper()
	user, password := "reader-"+uuid.NewString(), uuid.NewString()
	topoAPI(b.t, "PUT", "users/"+user, map[string]any{"password": password, "tags": ""})
	b.t.Cleanup(func() { topoAPI(b.t, "DELETE", "users/"+user, nil) })
	topoAPI(b.t, "PUT", "permissions/"+url.PathEscape(b.conn.Config.Vhost)+"/"+user,
		map[string]any{"configure": "^$", "write": "^$", "read": ".*"})

	at, err := url.Parse(brokerURL(b.t))
	if err != nil {
		b.t.Fatal(err)
	}
	at.User = url.UserPassword(user, password)
	return topoDial(b.t, at.String())
}

// A user who may only read is told what to do about it.
func TestTopologyPermissions(t *testing.T) {
	admin := newTopo(t)
	q := admin.name()
	admin.declare(topology.Spec{Queue: q})

	reader := admin.reader()
	reader.want("over AMQP", topology.Need{Queue: q, MaxRetries: 3}, "error arguments-denied")
	reader.want("with the management API", topology.Need{Queue: q, MaxRetries: 3, Management: managementURL(t)})
}

// The API may be away, or that of another broker; AMQP then tells what it can.
func TestTopologyManagementTrouble(t *testing.T) {
	b := newTopo(t)
	q := b.name()
	b.declare(topology.Spec{Queue: q})
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"name":"another@cluster"}`)
	}))
	defer other.Close()
	for _, api := range []string{"http://ops:sesame@127.0.0.1:1", other.URL, strings.Replace(managementURL(t), "://", "://no", 1)} {
		need := topology.Need{Queue: q, MaxRetries: 3, Management: api}
		b.want("trouble", need, "warning bindings-unknown", "warning management-unreachable")
		var log bytes.Buffer
		need.Logger = slog.New(slog.NewTextHandler(&log, nil))
		if err := topology.Check(context.Background(), b.conn, need); err != nil {
			t.Error(err)
		}
		if text := log.String(); !strings.Contains(text, "code=management-unreachable") || !strings.Contains(text, "queue="+q) ||
			strings.Contains(text, "sesame") {
			t.Errorf("logged: %s", text)
		}
	}
}

func TestTopologyClosedConnection(t *testing.T) {
	conn, err := amqp.Dial(brokerURL(t))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := topology.Check(t.Context(), conn, topology.Need{Queue: "q"}); !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("Check: got %v, want ErrClosed", err)
	}
	if err := topology.Declare(t.Context(), conn, topology.Spec{Queue: "q"}); !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("Declare: got %v, want ErrClosed", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := topology.Check(done, conn, topology.Need{Queue: "q"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Check: got %v, want Canceled", err)
	}
}
