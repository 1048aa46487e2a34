package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

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
	need(b.t, topology.Declare(b.t.Context(), b.conn, s))
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
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		d, ok, err := ch.Get(queue, false)
		need(b.t, err)
		if ok {
			return d, true
		}
	}
	return amqp.Delivery{}, false
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

// errAbsent: the management API answered 404.
var errAbsent = errors.New("not found")

// topoAPI calls the management API, which must agree.
func topoAPI(t *testing.T, method, path string, body any) {
	t.Helper()
	need(t, topoAsk(t, method, path, body))
}

func topoAsk(t *testing.T, method, path string, body any) error {
	t.Helper()
	base, err := url.Parse(managementURL(t))
	need(t, err)
	user := base.User
	base.User = nil
	content, err := json.Marshal(body)
	need(t, err)
	req, err := http.NewRequest(method, base.String()+"/api/"+path, bytes.NewReader(content))
	need(t, err)
	password, _ := user.Password()
	req.SetBasicAuth(user.Username(), password)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	res, err := client.Do(req)
	need(t, err)
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
