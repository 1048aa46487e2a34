// Package console tests the console in a real browser, on real servers.
package console

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/console"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// plant is a virtual host and a prefix of the store that a test has for itself. Its consumers reach the servers
// directly, the console through proxies, so that a test can take a server away from the console.
type plant struct {
	t      testing.TB
	vhost  string
	prefix string

	amqpURL, managementURL, storeURL string // direct
	broker, api, store               *proxy.Proxy

	counter *counter.Counter
	conn    *amqp.Connection
}

var onStore = flag.String("store", "redis", "kind of the store: redis, postgres or mysql, which is a MariaDB")

func newPlant(t testing.TB) *plant {
	t.Helper()
	return newPlantOn(t, *onStore)
}

// newPlantOn makes a plant with a store of a kind.
func newPlantOn(t testing.TB, kind string) *plant {
	t.Helper()
	p := &plant{t: t, amqpURL: servertest.VirtualHost(t), managementURL: servertest.ManagementURL(t)}
	var patient string
	if addr := map[string]func(testing.TB) string{"postgres": servertest.PostgreSQL,
		"mysql": servertest.MariaDB}[kind]; addr != nil {
		at, err := rig.Databases[kind].Prepare(t.Context(), addr(t))
		need(t, err)
		p.storeURL, patient = at, at
	} else {
		p.storeURL = forOperators(t, servertest.StoreURL(t))
		patient = servertest.Patient(t, p.storeURL)
	}
	p.vhost = path.Base(p.amqpURL)
	p.prefix = p.vhost
	p.broker, p.api, p.store = p.proxy(p.amqpURL), p.proxy(p.managementURL), p.proxy(p.storeURL)
	var err error
	p.counter, err = rig.Dial(patient, p.prefix)
	need(t, err)
	t.Cleanup(func() { _ = p.counter.Close() })
	p.conn, err = p.dialer()(t.Context())
	need(t, err)
	t.Cleanup(func() { _ = p.conn.Close() })
	return p
}

func (p *plant) proxy(server string) *proxy.Proxy {
	p.t.Helper()
	u, err := url.Parse(server)
	need(p.t, err)
	between, err := proxy.New(context.Background(), u.Host)
	need(p.t, err)
	p.t.Cleanup(between.Close)
	return between
}

// forOperators is the URL of a store with the read timeout that the command sets for a console.
func forOperators(t testing.TB, store string) string {
	u, err := url.Parse(store)
	need(t, err)
	q := u.Query()
	q.Set("read_timeout", "2s")
	u.RawQuery = q.Encode()
	return u.String()
}

// through is the URL of a server behind a proxy.
func through(server string, between *proxy.Proxy) string {
	u, err := url.Parse(server)
	if err != nil {
		panic(err) // newPlant has parsed it
	}
	u.Host = between.Addr()
	return u.String()
}

func (p *plant) dialer() func(context.Context) (*amqp.Connection, error) {
	return consumer.Dialer(p.amqpURL, amqp.Config{})
}

// declare declares queues with their dead-letter routes.
func (p *plant) declare(specs ...topology.Spec) {
	p.t.Helper()
	for _, s := range specs {
		need(p.t, topology.Declare(p.t.Context(), p.conn, s))
	}
}

// order is a message with headers that tell its handler how to end.
func order(id string, cause counter.Cause, why, body string) publisher.Message {
	headers := amqp.Table{"fate": string(cause), "why": why,
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	return publisher.Message{Publishing: amqp.Publishing{MessageId: id, ContentType: "application/json", Headers: headers,
		Body: []byte(body)}}
}

// handle ends as the headers of an order tell it.
func handle(ctx context.Context, d amqp.Delivery) error {
	why, _ := d.Headers["why"].(string)
	fate, _ := d.Headers["fate"].(string)
	if times, ok := d.Headers["times"].(int32); ok {
		why = strings.Repeat(why, int(times))
	}
	switch counter.Cause(fate) {
	case counter.CauseFailed:
		return errors.New(why)
	case counter.CausePanicked:
		panic(why)
	case counter.CauseTimedOut:
		<-ctx.Done()
		return fmt.Errorf("%s: %w", why, ctx.Err())
	case counter.CauseRejected:
		return consumer.Reject(errors.New(why))
	default:
		return nil
	}
}

// publish publishes messages to a queue, in batches.
func (p *plant) publish(queue string, msgs ...publisher.Message) {
	p.t.Helper()
	pub, err := publisher.New(publisher.Dialer(p.amqpURL, amqp.Config{}), nil)
	need(p.t, err)
	defer func() { _ = pub.Close() }()
	for i := range msgs {
		msgs[i].Key = queue
	}
	need(p.t, pub.PublishAll(p.t.Context(), msgs))
}

// consume runs a consumer until stop is called or the test ends. Its zero fields are set: it fails each order as the
// order says.
func (p *plant) consume(c consumer.Consumer) (stop func()) {
	p.t.Helper()
	c.Counter = p.counter
	if c.Handler == nil {
		c.Handler = handle
	}
	if c.Backoff == nil {
		c.Backoff = func(int) time.Duration { return 0 }
	}
	if c.HandlerTimeout == 0 {
		c.HandlerTimeout = time.Second
	}
	c.DrainTimeout = time.Second
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx, p.dialer()); err != nil && ctx.Err() == nil {
			p.t.Errorf("consumer of %s: %v", c.Queue, err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	p.t.Cleanup(stop)
	return stop
}

// depth is the number of ready messages of a queue.
func (p *plant) depth(queue string) int { return p.inspect(queue).Messages }

// consumers counts those of a queue.
func (p *plant) consumers(queue string) int { return p.inspect(queue).Consumers }

func (p *plant) inspect(queue string) (q amqp.Queue) {
	p.t.Helper()
	need(p.t, p.onChannel(func(ch *amqp.Channel) (err error) {
		q, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	}))
	return q
}

// kill publishes orders to a queue and waits until all are dead letters.
func (p *plant) kill(queue string, orders ...publisher.Message) {
	p.t.Helper()
	before := p.depth(queue + ".dlq")
	p.publish(queue, orders...)
	stop := p.consume(consumer.Consumer{Queue: queue, MaxRetries: 1, Concurrency: 8,
		HandlerTimeout: 50 * time.Millisecond})
	proctest.Eventually(p.t, time.Minute, "dead letters in "+queue, func() bool {
		return p.depth(queue+".dlq") == before+len(orders)
	})
	stop()
}

// well handles every message.
func well(context.Context, amqp.Delivery) error { return nil }

var need = servertest.Need

// errOf is the error of a call whose result the test does not need.
func errOf[T any](_ T, err error) error { return err }

func TestMain(m *testing.M) { os.Exit(servertest.Run(tests{m})) }

// tests close the browser before the servers end and goroutines are counted.
type tests struct{ *testing.M }

func (m tests) Run() int {
	defer func() { chromium.close() }() // which start sets
	return m.M.Run()
}

// site is a console in this process, as a program embeds it.
type site struct {
	t   testing.TB
	url string // of the first page; it ends with a slash
	log *logged
}

// logged keeps the log of the console.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serve serves the console of a plant until the test ends. Unless change says otherwise, it allows every verb to this
// machine.
func (p *plant) serve(change func(*console.Options)) *site {
	p.t.Helper()
	return p.serveBelow("", change)
}

func (p *plant) serveBelow(prefix string, change func(*console.Options)) *site {
	p.t.Helper()
	store, err := rig.Dial(through(p.storeURL, p.store), p.prefix)
	need(p.t, err)
	p.t.Cleanup(func() { _ = store.Close() })
	s := &site{t: p.t, log: &logged{}}
	opts := console.Options{
		Store: store, Dial: consumer.Dialer(through(p.amqpURL, p.broker), amqp.Config{}), VHost: p.vhost,
		Management: through(p.managementURL, p.api),
		Allow:      console.AllVerbs(), Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	}
	if change != nil {
		change(&opts)
	}
	c, err := console.New(opts)
	need(p.t, err)
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, c))
	server := httptest.NewServer(mux)
	p.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := c.Close(); err != nil {
			p.t.Errorf("closing the console: %v", err)
		}
		if p.t.Failed() {
			p.t.Logf("the console logged:\n%s", s.log)
		}
	})
	s.url = server.URL + prefix + "/"
	return s
}

// at is the address of a page. Names and values of its query follow.
func (s *site) at(page string, query ...string) string {
	q := url.Values{}
	for i := 0; i < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	if len(q) == 0 {
		return s.url + page
	}
	return s.url + page + "?" + q.Encode()
}

// ask sends a request as a program would, and follows no redirect. The caller may change the request.
func (s *site) ask(method, at string, form url.Values, change func(*http.Request)) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, at, strings.NewReader(form.Encode()))
	need(s.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(req)
	}
	client := http.Client{
		Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	need(s.t, err)
	s.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// page is the source of a page.
func (s *site) page(at string) string {
	s.t.Helper()
	body, err := io.ReadAll(s.ask(http.MethodGet, at, nil, nil).Body)
	need(s.t, err)
	return string(body)
}

// says reports the parts that a page lacks.
func (s *site) says(at string, parts ...string) {
	s.t.Helper()
	page := s.page(at)
	for _, part := range parts {
		if !strings.Contains(page, part) {
			s.t.Errorf("%s lacks %s: %s", at, part, page)
		}
	}
}
