package push

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

// discard takes the settlements of deliveries.
type discard struct{}

func (discard) Ack(uint64, bool) error        { return nil }
func (discard) Nack(uint64, bool, bool) error { return nil }
func (discard) Reject(uint64, bool) error     { return nil }

// first is the event of a consumer after the first attempt at a delivery.
type first struct {
	consumer.Event
	consumer *consumer.Consumer
}

// attempt hands a delivery to the endpoint once.
func attempt(t *testing.T, e *Endpoint, d amqp.Delivery, settings ...func(*consumer.Consumer)) (got first) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	d.Acknowledger = discard{}
	if d.MessageId == "" {
		d.MessageId = "m1"
	}
	c := &consumer.Consumer{Queue: e.Queue, Handler: e.Handle, Counter: counter.NewMemory(nil),
		Observer: observer(func(ev consumer.Event) {
			if got.Outcome == "" && ev.Outcome != consumer.OutcomeIsolate {
				got.Event = ev
				stop()
			}
		})}
	for _, set := range settings {
		set(c)
	}
	got.consumer = c
	if _, err := c.Handle(ctx, "/", d); err != nil {
		t.Fatal(err)
	}
	return got
}

// isolated is attempt at a message that may have killed its process: an attempt at it was left open.
func isolated(t *testing.T, e *Endpoint, d amqp.Delivery) first {
	t.Helper()
	d.MessageId, d.Redelivered = cmp.Or(d.MessageId, "m1"), true
	store := counter.NewMemory(nil)
	generation := broker.ReadHeaders(d.Headers, e.Queue, d.MessageId, d.Body).Generation()
	open := counter.Attempt{Message: counter.Message{VHost: "/", Queue: e.Queue, Generation: generation, ID: d.MessageId},
		Token: "dead"}
	if reply, err := store.Start(t.Context(), open, rules.ModeShared, 4); err != nil ||
		reply.Code != rules.ReplyRun {
		t.Fatal(reply, err)
	}
	return attempt(t, e, d, func(c *consumer.Consumer) { c.Counter = store })
}

type observer func(consumer.Event)

func (o observer) Observe(_ context.Context, e consumer.Event) { o(e) }

func endpoint(t *testing.T, o Options) *Endpoint {
	t.Helper()
	if o.Queue == "" {
		o.Queue = "orders"
	}
	e, err := New(o)
	need(t, err)
	for _, on := range []*http.Transport{e.transport, e.fresh} {
		on.TLSClientConfig.RootCAs = authority()
	}
	t.Cleanup(e.Close)
	return e
}

// authority has the certificate authority of the servers of httptest.
var authority = sync.OnceValue(func() *x509.CertPool {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return pool
})

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// hijack gives a test the connection of a request.
func hijack(t *testing.T, w http.ResponseWriter) net.Conn {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
	}
	return conn
}

// reset ends a connection without a word.
func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

func TestWhatAnEndpointDoes(t *testing.T) {
	big := bytes.Repeat([]byte("e"), 1<<20)
	huge := bytes.Repeat([]byte("e"), 32<<20) // more than the buffers of a connection hold
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		body    []byte
		want    consumer.Outcome
		says    string
		within  time.Duration
	}{
		{name: "done", handler: func(http.ResponseWriter, *http.Request) {}, want: consumer.OutcomeAck},
		{name: "fails", handler: status(500, "no stock\n"), want: consumer.OutcomeRetry,
			says: "HTTP 500 Internal Server Error: no stock"},
		{name: "says nothing", handler: status(400, ""), want: consumer.OutcomeRetry, says: "HTTP 400 Bad Request"},
		{name: "rejects", handler: status(422, "bad order"), want: consumer.OutcomeDeadLetter,
			says: "HTTP 422 Unprocessable Entity: bad order"},
		{name: "encodes its response", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			status(500, "\x8b\x03\x80no stock\x03")(w, r)
		}, want: consumer.OutcomeRetry, says: "HTTP 500 Internal Server Error: (its body is encoded)"},
		{name: "is busy", handler: status(503, "later"), want: consumer.OutcomeNotCounted,
			says: "HTTP 503 Service Unavailable: later"},
		{name: "has a dead upstream", handler: status(502, ""), want: consumer.OutcomeCrash, says: "HTTP 502 Bad Gateway"},
		{name: "redirects", handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://u:hush@h/elsewhere?key=hush", http.StatusTemporaryRedirect)
		},
			want: consumer.OutcomeRetry, says: "HTTP 307 Temporary Redirect, a redirect, which is not followed, to " +
				"http://u:xxxxx@h/elsewhere"},
		{name: "resets before it reads", handler: func(w http.ResponseWriter, _ *http.Request) {
			reset(hijack(t, w))
		}, body: huge, want: consumer.OutcomeCrash,
			says: "ended the connection before its response"},
		{name: "resets in its headers", handler: raw(t, "HTTP/1.1 200 OK\r\nContent-"), want: consumer.OutcomeRetry,
			says: "sent no valid HTTP response"},
		{name: "dies after a 102", handler: raw(t, "HTTP/1.1 102 Processing\r\n\r\n"), want: consumer.OutcomeCrash,
			says: "ended the connection before its response"},
		{name: "sends two lengths", handler: raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
			want: consumer.OutcomeRetry,
			says: "sent no valid HTTP response"},
		{name: "resets after it read", handler: func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			reset(hijack(t, w))
		}, body: big, want: consumer.OutcomeCrash, says: "ended the connection before its response"},
		{name: "closes after it read", handler: func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = hijack(t, w).Close()
		}, want: consumer.OutcomeCrash, says: "ended the connection before its response: EOF"},
		{name: "does not speak HTTP", handler: func(w http.ResponseWriter, _ *http.Request) {
			conn := hijack(t, w)
			_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.2\r\n\r\n")
			_ = conn.Close()
		}, want: consumer.OutcomeRetry, says: "sent no valid HTTP response"},
		{name: "has huge headers", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", string(big))
		}, want: consumer.OutcomeRetry,
			says: "sent no valid HTTP response"},
		{name: "sends 1 MB of error", handler: status(500, string(big)), want: consumer.OutcomeRetry,
			says: "HTTP 500 Internal Server Error: " + string(big[:maxReason])},
		{name: "sends what a terminal obeys", handler: status(500, "a\x1b[31mb\x00\xff\nc"), want: consumer.OutcomeRetry,
			says: "HTTP 500 Internal Server Error: a\\x1b[31mb\\x00\uFFFD\nc"},
		{name: "switches protocols", handler: func(w http.ResponseWriter, r *http.Request) {
			conn := hijack(t, w)
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // until the client closes it
		}, want: consumer.OutcomeRetry, says: "HTTP 101 Switching Protocols", within: time.Minute},
		{name: "trickles a failure", handler: trickle(500), want: consumer.OutcomeRetry,
			says: "HTTP 500 Internal Server Error: ..", within: time.Minute},
		{name: "trickles a success", handler: trickle(200), want: consumer.OutcomeAck, within: time.Minute},
		{name: "cuts a success", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "part")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, want: consumer.OutcomeAck},
		{name: "does not read what it accepts", handler: func(http.ResponseWriter, *http.Request) {}, body: big,
			want: consumer.OutcomeAck},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tc.handler)
			began, e := time.Now(), endpoint(t, Options{URL: s.URL})
			e.heard.Store(true)
			got := attempt(t, e, amqp.Delivery{Body: tc.body})
			says := ""
			if got.Err != nil {
				says = got.Err.Error()
			}
			if got.Outcome != tc.want || !strings.Contains(says, tc.says) || strings.Contains(says, "hush") ||
				len(says) > 2*maxReason {
				t.Errorf("%s: %.200q, want %s: %.200q", got.Outcome, says, tc.want, tc.says)
			}
			if took := time.Since(began); tc.within > 0 && took > tc.within {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// raw sends a text, and closes the connection.
func raw(t *testing.T, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn := hijack(t, w)
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// trickle sends a body that does not end.
func trickle(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = io.WriteString(w, ".")
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	defer silent.Close()
	for _, url := range []string{"http://127.0.0.1:1", "http://no-such-host.invalid/",
		"https://" + silent.Addr().String()} {
		got := attempt(t, endpoint(t, Options{URL: url}), amqp.Delivery{}, func(c *consumer.Consumer) {
			c.HandlerTimeout = 2 * time.Second
		})
		if got.Outcome != consumer.OutcomeNotCounted || !strings.Contains(got.Err.Error(), "is out of reach") {
			t.Errorf("%s: %s, %v", url, got.Outcome, got.Err)
		}
	}
}

// TestHang has an endpoint not respond within the handler's timeout, which is a failure; and a stop, which is not.
func TestHang(t *testing.T) {
	began := make(chan struct{}, 9)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client has gone
		began <- struct{}{}
		<-r.Context().Done()
	})
	e := endpoint(t, Options{URL: s.URL})
	got := attempt(t, e, amqp.Delivery{}, func(c *consumer.Consumer) { c.HandlerTimeout = 200 * time.Millisecond })
	if got.Outcome != consumer.OutcomeRetry || got.Cause != counter.CauseTimedOut {
		t.Errorf("%s, %s, %v", got.Outcome, got.Cause, got.Err)
	}
	<-began

	ctx, stop := context.WithCancel(t.Context())
	go func() { <-began; stop() }()
	m := counter.NewMemory(nil)
	c := &consumer.Consumer{Queue: "orders", Handler: e.Handle, Counter: m}
	if outcome, err := c.Handle(ctx, "/", amqp.Delivery{Acknowledger: discard{}, MessageId: "m1",
		Redelivered: true}); outcome != consumer.OutcomeLeave || err != nil {
		t.Errorf("stopped: %s, %v", outcome, err)
	}
	if records, _ := m.Get(t.Context(), "/", "orders", "m1"); len(records) != 1 || records[0].Counted() != 0 ||
		records[0].OpenToken != "" {
		t.Errorf("stopped: %+v", records)
	}
}

// TestCancel ends the attempts that run.
func TestCancel(t *testing.T) {
	began := make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(began)
		<-r.Context().Done()
	})
	e := endpoint(t, Options{URL: s.URL})
	go func() { <-began; e.Cancel() }()
	if err := e.Handle(t.Context(), amqp.Delivery{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestRequest: the request has the body, the properties and the headers of the message.
func TestRequest(t *testing.T) {
	var r *http.Request
	var body []byte
	s := serve(t, func(_ http.ResponseWriter, got *http.Request) {
		r = got
		body, _ = io.ReadAll(got.Body)
	})
	e := endpoint(t, Options{URL: strings.Replace(s.URL, "://", "://user:pass%20word@", 1) + "/in%2Fbox?a=b",
		Queue: "käufe"})
	payload := bytes.Repeat([]byte{0, 1, 2, 0xff}, 4<<20)
	d := amqp.Delivery{
		Body: payload, ContentType: "application/json; charset=utf-8", ContentEncoding: "gzip", MessageId: "a b\r\n%é",
		Exchange: "x", RoutingKey: "k.1",
		Redelivered: true, Headers: amqp.Table{
			consumer.GenerationHeader: "g 1", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"tracestate": []byte("a=1"),
		},
	}
	broker.WriteFor(d.Headers, "käufe", d.MessageId, nil)
	attempt(t, e, d)
	if !bytes.Equal(body, payload) {
		t.Errorf("%d bytes arrived, of %d", len(body), len(payload))
	}
	if r.Method != http.MethodPost || r.RequestURI != "/in%2Fbox?a=b" {
		t.Errorf("%s %s", r.Method, r.RequestURI)
	}
	if user, password, ok := r.BasicAuth(); user != "user" || password != "pass word" || !ok {
		t.Errorf("%q %q %v", user, password, ok)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json; charset=utf-8", "Content-Encoding": "gzip",
		"Strikes-Message-Id": "a%20b%0D%0A%25%C3%A9",
		"Strikes-Queue":      "k%C3%A4ufe", "Strikes-Exchange": "x", "Strikes-Routing-Key": "k.1",
		"Strikes-Generation": "header:g%201", "Strikes-Attempt": "1",
		"Strikes-Limit": "4", "Strikes-Redelivered": "true",
		"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"Tracestate":  "a=1", "User-Agent": "strikes", "Accept-Encoding": "identity",
		"Content-Length": fmt.Sprint(len(payload)),
	} {
		got := r.Header.Get(name)
		if name == "Content-Length" {
			got = fmt.Sprint(r.ContentLength)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.Header.Get("Strikes-Token") == "" || r.Header.Get("Strikes-Fence") == "" || r.Header.Get("Strikes-Fence") == "0" {
		t.Errorf("token %q, fence %q", r.Header.Get("Strikes-Token"), r.Header.Get("Strikes-Fence"))
	}
}

// TestRedirectToNoURL: the status decides, also on a connection that is kept. The location is not quoted.
func TestRedirectToNoURL(t *testing.T) {
	e := endpoint(t, Options{URL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://u:hush@a b/")
		w.WriteHeader(http.StatusFound)
	}).URL})
	const says = "HTTP 302 Found, a redirect, which is not followed, to (a URL that is not shown)"
	for range 3 {
		if got := attempt(t, e, amqp.Delivery{}); got.Outcome != consumer.OutcomeRetry || got.Err.Error() != says {
			t.Errorf("%s: %v", got.Outcome, got.Err)
		}
	}
}

// TestConnections: one is kept for several messages, also after failures, and an isolated attempt gets a new one.
func TestConnections(t *testing.T) {
	var opened atomic.Int64
	s := httptest.NewUnstartedServer(status(500, strings.Repeat("e", 2*maxReason)))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	e := endpoint(t, Options{URL: s.URL})
	for range 5 {
		attempt(t, e, amqp.Delivery{})
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for 5 messages", n)
	}
	isolated(t, e, amqp.Delivery{})
	if n := opened.Load(); n != 2 {
		t.Errorf("%d connections; the isolated attempt is to have a new one", n)
	}
}

// TestClosedIdleConnections has a server close each connection that is idle: no message is counted for that.
func TestClosedIdleConnections(t *testing.T) {
	s := httptest.NewUnstartedServer(status(200, "ok"))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateIdle {
			_ = c.Close()
		}
	}
	s.Start()
	defer s.Close()
	e := endpoint(t, Options{URL: s.URL})
	for range 200 {
		switch got := attempt(t, e, amqp.Delivery{}); got.Outcome {
		case consumer.OutcomeAck, consumer.OutcomeCrash, consumer.OutcomeNotCounted:
		default:
			t.Fatalf("%s: %v", got.Outcome, got.Err)
		}
		got := isolated(t, e, amqp.Delivery{})
		if got.Outcome != consumer.OutcomeAck {
			t.Fatalf("isolated: %s: %v", got.Outcome, got.Err)
		}
	}
}

const noContent = "HTTP/1.1 204 No Content\r\n\r\n"

// secondGets responds 204 to the first request on a connection. It writes last after the second one, and closes.
func secondGets(t *testing.T, last string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, noContent)
		if _, err := http.ReadRequest(buffered.Reader); err == nil {
			_, _ = io.WriteString(conn, last)
		}
	}
}

// TestBodyAfterA204: the bytes are read as the start of the next response. The next message becomes a suspect, and
// nothing is counted.
func TestBodyAfterA204(t *testing.T) {
	s := serve(t, secondGets(t, "ok\n"+noContent))
	e := endpoint(t, Options{URL: s.URL})
	for _, want := range []consumer.Outcome{consumer.OutcomeAck, consumer.OutcomeCrash} {
		if got := attempt(t, e, amqp.Delivery{}); got.Outcome != want {
			t.Errorf("%s: %v, want %s", got.Outcome, got.Err, want)
		}
	}
	if got := isolated(t, e, amqp.Delivery{}); got.Outcome != consumer.OutcomeAck {
		t.Errorf("isolated: %s: %v", got.Outcome, got.Err)
	}
}

// TestIdleConnectionEnds: the endpoint ends an idle connection just when a message is posted, and no handler sees that
// message. It is not counted, also without an id. What happens on a new connection decides.
func TestIdleConnectionEnds(t *testing.T) {
	const timedOut = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	withoutID := func(c *consumer.Consumer) {
		handle := c.Handler
		c.Key = func(amqp.Delivery) string { return "" }
		c.Handler = func(ctx context.Context, d amqp.Delivery) error {
			d.MessageId = ""
			return handle(ctx, d)
		}
	}
	withID := func(*consumer.Consumer) {}
	for _, tc := range []struct {
		name, last string
		set        func(*consumer.Consumer)
		want       consumer.Outcome
	}{
		{"says so", timedOut, withID, consumer.OutcomeAck},
		{"says so, without an id", timedOut, withoutID, consumer.OutcomeAck},
		{"closes", "", withID, consumer.OutcomeCrash},
		{"closes, without an id", "", withoutID, consumer.OutcomeAck},
		{"sends other bytes, without an id", "ok\n", withoutID, consumer.OutcomeAck},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := endpoint(t, Options{URL: serve(t, secondGets(t, tc.last)).URL})
			for _, want := range []consumer.Outcome{consumer.OutcomeAck, tc.want, consumer.OutcomeAck} {
				if got := attempt(t, e, amqp.Delivery{}, tc.set); got.Outcome != want {
					t.Errorf("%s: %v, want %s", got.Outcome, got.Err, want)
				}
			}
		})
	}
	e := endpoint(t, Options{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch body, _ := io.ReadAll(r.Body); string(body) {
		case "slow":
			w.WriteHeader(http.StatusRequestTimeout)
		case "slow, and closes":
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusRequestTimeout)
		case "kills":
			panic(http.ErrAbortHandler)
		}
	}).URL})
	for _, tc := range []struct {
		body string
		set  func(*consumer.Consumer)
		want consumer.Outcome
	}{
		{"slow", withID, consumer.OutcomeRetry}, {"slow, and closes", withID, consumer.OutcomeRetry},
		{"kills", withID, consumer.OutcomeCrash}, {"kills", withoutID, consumer.OutcomeDeadLetter},
	} {
		for _, of := range []string{"", tc.body} { // the first leaves an idle connection
			want := tc.want
			if of == "" {
				want = consumer.OutcomeAck
			}
			if got := attempt(t, e, amqp.Delivery{Body: []byte(of)}, tc.set); got.Outcome != want {
				t.Errorf("%q: %s: %v, want %s", of, got.Outcome, got.Err, want)
			}
		}
	}
}

// TestToken: the file is read for each attempt, and no reason quotes it.
func TestToken(t *testing.T) {
	var sent string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "you sent %s", sent)
	})
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		need(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("hush-1\n")
	e := endpoint(t, Options{URL: s.URL, TokenFile: file})
	for _, want := range []string{"hush-1", "hush-2"} {
		write(want)
		got := attempt(t, e, amqp.Delivery{})
		if sent != "Bearer "+want || got.Err.Error() != "HTTP 403 Forbidden: you sent Bearer xxxxx" {
			t.Errorf("sent %q: %v", sent, got.Err)
		}
	}
	for _, bad := range []string{"", "two words", "a\nb"} {
		write(bad)
		if got := attempt(t, e, amqp.Delivery{}); got.Outcome != consumer.OutcomeNotCounted ||
			!strings.Contains(got.Err.Error(), "--http-token-file") {
			t.Errorf("%q: %s, %v", bad, got.Outcome, got.Err)
		}
	}
}
