package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/console"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// take takes a server away from the console, and gives it back.
func take(between *proxy.Proxy, away bool) {
	between.Refuse(away)
	if away {
		between.Cut()
	}
}

// opened serves the console of a queue with three dead letters, and opens a page about it.
func (p *plant) opened(screen string) (*site, *tab) {
	p.t.Helper()
	p.declare(topology.Spec{Queue: "payments", Type: topology.Classic})
	p.kill("payments", payments(3)...)
	s, b := p.serve(nil), newTab(p.t)
	b.visit(s.at(screen, "queue", "payments"))
	b.sees("3 dead letters")
	return s, b
}

// without takes servers away while a page is open: it says so, keeps its last facts, and recovers.
func (b *tab) without(says string, meanwhile func(), servers ...*proxy.Proxy) {
	b.t.Helper()
	for _, server := range servers {
		take(server, true)
	}
	b.sees(says)
	b.sees("3 dead letters") // as it was known
	meanwhile()
	for _, server := range servers {
		take(server, false)
	}
	proctest.Eventually(b.t, patience, "the page to recover", func() bool {
		return !strings.Contains(b.text("body"), says)
	})
}

// TestServersAway takes broker and store away while the page of a queue is open.
func TestServersAway(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	p := newPlant(t)
	s, b := p.opened("queue")
	doctor := func() {
		if status := newTab(t).visit(s.at("doctor")); status >= http.StatusInternalServerError &&
			status != http.StatusBadGateway && status != http.StatusServiceUnavailable {
			t.Errorf("the doctor's page: status %d", status)
		}
	}
	b.without("No answer from the store", doctor, p.store)
	b.without("No answer from the broker", doctor, p.broker, p.api)
	b.without("No answer from", doctor, p.broker, p.api, p.store)
}

// TestListWithoutTheStore takes the store away while a list is open.
func TestListWithoutTheStore(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	_, b := p.opened("dead")
	b.without("This page is not up to date", func() {}, p.store)
}

// TestBufferingProxy has a proxy keep the stream back: the page polls instead.
func TestBufferingProxy(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "payments", Type: topology.Classic})
	s := p.serve(nil)
	target, err := url.Parse(s.url)
	need(t, err)
	passOn := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // nothing arrives until the stream ends
			return
		}
		passOn.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	b := newTab(t)
	b.visit(front.URL + "/queue?queue=payments")
	b.sees("None.")
	p.kill("payments", payments(3)...)
	b.sees("3 dead letters")
}

// TestSlowReader opens streams that no client reads: each ends, and the others are not slowed down.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	s, b := p.opened("queue")
	u, err := url.Parse(s.url)
	need(t, err)
	for range 20 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", u.Host)
		need(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.(*net.TCPConn).SetReadBuffer(1024)
		need(t, errOf(io.WriteString(conn, "GET /live?screen=queue&queue=payments HTTP/1.1\r\nHost: "+u.Host+
			"\r\nAccept: text/event-stream\r\n\r\n")))
	}
	b.visit(s.at("queue", "queue", "payments"))
	b.sees("3 dead letters")
	p.kill("payments", payments(2)...)
	b.sees("5 dead letters")
}

// TestStreamIsSent reads the stream as a program: events come at least every few seconds, and name the parts that
// changed.
func TestStreamIsSent(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "payments", Type: topology.Classic})
	s := p.serve(nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.at("live", "screen", "queue", "queue", "payments"), nil)
	need(t, err)
	req.Header.Set("Accept", "text/event-stream")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	need(t, err)
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		t.Errorf("content type %q", kind)
	}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			return
		}
	}
	t.Error("the stream ended without an event")
}

// declareWithout declares a queue, and all delay queues but one.
func (p *plant) declareWithout(queue, delay string) {
	p.declare(topology.Spec{Queue: queue, DelayQueues: true})
	need(p.t, p.onChannel(func(ch *amqp.Channel) error {
		return errOf(ch.QueueDelete(delay, false, false, false))
	}))
}

// TestDoctorOfAQueue finds a broken delay queue on the Doctor page of one queue, which examines the broker as that of
// all queues does.
func TestDoctorOfAQueue(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declareWithout("payments", "strikes.delay.1h")
	s := p.serve(nil)
	s.says(s.at("doctor", "queue", "payments"), `Queue <a href`, "payments", "<h2>Broker</h2>", "strikes.delay.1h",
		"<h2>Store</h2>")
}

// TestTwoOperators has two people change one message. The second sees the change of the first, and each page shows the
// real changes.
func TestTwoOperators(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "orders", SingleActiveConsumer: true})
	p.block("orders", 0)
	s := p.serve(nil)
	ada, bob := newTab(t), newTab(t)
	for b, retries := range map[*tab]string{ada: "13", bob: "18"} {
		b.visit(s.at("change", "queue", "orders", "verb", "limit", "id", "order-7301"))
		b.fill("#number", retries)
		b.fill("#why", "the warehouse is up again")
	}
	ada.follow("main form button")
	ada.sees("order-7301: set to 13 retries (14 attempts)")
	bob.follow("main form button")
	bob.sees("order-7301: set to 18 retries (19 attempts)")
	if r := p.record("orders", "order-7301"); r.OwnLimit != 19 {
		t.Errorf("a limit of %d attempts, want 19", r.OwnLimit)
	}
	for _, b := range []*tab{ada, bob} {
		b.visit(s.at("change", "queue", "orders", "verb", "reset", "id", "order-7301"))
		b.fill("#why", "again")
	}
	ada.follow("main form button")
	ada.sees("order-7301: forgotten (3 failed attempts")
	bob.follow("main form button")
	bob.sees("nothing changed")
	if r := p.record("orders", "order-7301"); r.Counted() != 0 || r.State != counter.StateLive {
		t.Errorf("after two resets: %+v", r)
	}
}

// TestDoctorOfABrokenConnection ends the connections while the queue is examined. The page still has the findings about
// the delay queues, which are examined at the same time.
func TestDoctorOfABrokenConnection(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declareWithout("payments", "strikes.delay.1h")
	var armed atomic.Bool
	known := make(chan struct{})
	closed := sync.OnceFunc(func() { close(known) })
	s := p.serve(func(o *console.Options) {
		o.HTTPClient = &http.Client{Transport: onRequest(func(r *http.Request) {
			switch {
			case armed.Load() && strings.Contains(r.URL.Path, "/strikes.delay."): // their policies, once AMQP has replied
				closed()
			case armed.Load() && strings.HasSuffix(r.URL.Path, "/payments"):
				select {
				case <-known:
				case <-r.Context().Done():
				}
				p.broker.Cut()
			}
		})}
	})
	proctest.Eventually(t, patience, "the first examination, which has a connection of its own", func() bool {
		return strings.Contains(s.page(s.at("doctor")), "Examined ")
	})
	armed.Store(true)
	s.says(s.at("doctor", "queue", "payments"), "Not examined: ", "<h2>Broker</h2>", "strikes.delay.1h")
}

// TestDoctorOfAHangingBroker lets the question about alarms hang until the queue is asked about.
func TestDoctorOfAHangingBroker(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "payments"})
	var armed atomic.Bool
	asked := make(chan struct{})
	closed := sync.OnceFunc(func() { close(asked) })
	s := p.serve(func(o *console.Options) {
		o.HTTPClient = &http.Client{Transport: onRequest(func(r *http.Request) {
			switch {
			case armed.Load() && strings.HasSuffix(r.URL.Path, "/payments"):
				closed()
			case armed.Load() && strings.HasSuffix(r.URL.Path, "/alarms"):
				select {
				case <-asked:
				case <-r.Context().Done():
				}
			}
		})}
	})
	proctest.Eventually(t, patience, "the first examination", func() bool {
		return strings.Contains(s.page(s.at("doctor")), "Examined ")
	})
	armed.Store(true)
	if body := s.page(s.at("doctor", "queue", "payments")); strings.Contains(body, "xamined: ") {
		t.Errorf("the page says that not all was examined: %s", body)
	}
}

// TestDoctorOfASilentBroker has the broker answer nothing once it has accepted a connection. The pages end with their
// time, and say so in the same words.
func TestDoctorOfASilentBroker(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	const queues = 8
	for i := range queues {
		p.declare(topology.Spec{Queue: fmt.Sprint("payments.", i)})
	}
	var armed atomic.Bool
	s := p.serve(func(o *console.Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context) (*amqp.Connection, error) {
			if !armed.Load() {
				return dial(ctx)
			}
			between := p.proxy(p.amqpURL)
			conn, err := consumer.Dialer(through(p.amqpURL, between), amqp.Config{})(ctx)
			between.Mute(true)
			return conn, err
		}
	})
	proctest.Eventually(t, patience, "the first examination", func() bool {
		return strings.Contains(s.page(s.at("doctor")), "Examined ")
	})
	armed.Store(true)
	var all sync.WaitGroup
	for i := range queues {
		all.Go(func() {
			s.says(s.at("doctor", "queue", fmt.Sprint("payments.", i)),
				"examining the delay queues: the broker did not answer")
		})
	}
	all.Wait()
}

// onRequest is called before each request.
type onRequest func(*http.Request)

func (f onRequest) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return http.DefaultTransport.RoundTrip(r)
}
