package push

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
)

// TestTooLargeHeaders: a request that the endpoint never takes is a failed attempt.
func TestTooLargeHeaders(t *testing.T) {
	s := secure(t, status(200, ""), func(s *httptest.Server) { s.Config.MaxHeaderBytes = 1 << 10 })
	e := endpoint(t, Options{URL: s.URL})
	large := amqp.Delivery{MessageId: "large", Headers: amqp.Table{consumer.GenerationHeader: strings.Repeat("g",
		32<<10)}}
	broker.WriteFor(large.Headers, "orders", large.MessageId, nil)
	if got := isolated(t, e, large); got.Outcome != consumer.OutcomeRetry {
		t.Errorf("%s: %v", got.Outcome, got.Err)
	}
	if got := attempt(t, e, amqp.Delivery{}); got.Outcome != consumer.OutcomeAck {
		t.Errorf("a small one: %s: %v", got.Outcome, got.Err)
	}
}

// TestLongTraceState: it is left out, because an endpoint need not take it.
func TestLongTraceState(t *testing.T) {
	for size, kept := range map[int]bool{512: true, 513: false} {
		value := strings.Repeat("a", size)
		h := headers("q", amqp.Delivery{Headers: amqp.Table{"tracestate": value}}, consumer.Attempt{})
		if got := h.Get("tracestate") == value; got != kept {
			t.Errorf("%d bytes: kept %v", size, got)
		}
	}
}

// TestNeverAnswered has servers that end the connection of each POST. Only if one responds to HEAD may the message be
// the cause. Else it speaks another protocol, as Redis and RabbitMQ do, or refuses the client's certificate.
func TestNeverAnswered(t *testing.T) {
	ends := func(response string, end func(net.Conn)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == response {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			conn := hijack(t, w)
			_, _ = io.WriteString(conn, strings.TrimPrefix(response, http.MethodHead))
			if c, is := conn.(*tls.Conn); is {
				conn = c.NetConn()
			}
			end(conn)
		}
	}
	closed := func(c net.Conn) { _ = c.Close() }
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		first   consumer.Outcome
		want    consumer.Outcome // of the isolated attempt
	}{
		{"closes", ends("", closed), consumer.OutcomeCrash, consumer.OutcomeNotCounted},
		{"resets", ends("", reset), consumer.OutcomeCrash, consumer.OutcomeNotCounted},
		{"speaks AMQP", ends("AMQP\x00\x00\x09\x01", closed), consumer.OutcomeNotCounted, consumer.OutcomeNotCounted},
		{"speaks HTTP", ends(http.MethodHead, closed), consumer.OutcomeCrash, consumer.OutcomeRetry},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := secure(t, tc.handler)
			for _, o := range []Options{{URL: serve(t, tc.handler).URL}, {URL: s.URL}} {
				e := endpoint(t, o)
				if got := attempt(t, e, amqp.Delivery{Body: []byte("x")}); got.Outcome != tc.first {
					t.Errorf("at first: %s: %v", got.Outcome, got.Err)
				}
				got := isolated(t, e, amqp.Delivery{Body: []byte("x")})
				if says := strings.Contains(got.Err.Error(), "does not answer HEAD as HTTP"); got.Outcome != tc.want ||
					says != (tc.want == consumer.OutcomeNotCounted) {
					t.Errorf("isolated: %s: %v", got.Outcome, got.Err)
				}
			}
		})
	}
}

// TestNeverAnsweredWithoutID: a message without an id cannot be isolated. So a server that speaks another protocol, or
// refuses the client's certificate, is asked before the message is dead-lettered.
func TestNeverAnsweredWithoutID(t *testing.T) {
	for responds, want := range map[string]consumer.Outcome{"": consumer.OutcomeNotCounted,
		http.MethodHead: consumer.OutcomeDeadLetter, http.MethodPost: consumer.OutcomeAck} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != responds {
				reset(hijack(t, w))
			}
		})
		ctx, stop := context.WithCancel(t.Context())
		var got consumer.Event
		c := &consumer.Consumer{Queue: "orders", Handler: endpoint(t, Options{URL: s.URL}).Handle,
			Counter: counter.NewMemory(nil), Observer: observer(func(e consumer.Event) {
				if got.Outcome == "" {
					got = e
					stop()
				}
			})}
		_, err := c.Handle(ctx, "/", amqp.Delivery{Acknowledger: discard{}, Body: []byte("x")})
		need(t, err)
		if got.Outcome != want {
			t.Errorf("responds to %q: %s: %v", responds, got.Outcome, got.Err)
		}
	}
}

// TestInvalidFirstResponse: it is a failed attempt if the endpoint speaks HTTP, though no attempt is ever isolated.
func TestInvalidFirstResponse(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			_, _ = io.Copy(io.Discard, r.Body)
			conn := hijack(t, w)
			_, _ = io.WriteString(conn, "HTTP/1.1 order\r\n\r\n")
			_ = conn.Close()
		}
	})
	got := attempt(t, endpoint(t, Options{URL: s.URL}), amqp.Delivery{}, func(c *consumer.Consumer) {
		c.Isolation = consumer.IsolationOff
	})
	if got.Outcome != consumer.OutcomeRetry {
		t.Errorf("%s: %v", got.Outcome, got.Err)
	}
}

// TestGreetingHangs: an endpoint that leaves HEAD without a response gets the message all the same, but after a stop.
// A message that was not posted has no failed attempt.
func TestGreetingHangs(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		stop()
		<-r.Context().Done()
	})
	if err := endpoint(t, Options{URL: s.URL}).greet(t.Context(), 1); err != nil {
		t.Errorf("it may respond to POST, but: %v", err)
	}
	if err := endpoint(t, Options{URL: s.URL}).greet(ctx, time.Minute); err == nil || !strings.Contains(err.Error(),
		"does not answer HEAD as HTTP: context canceled") {
		t.Error(err)
	}
}

// TestEarlyResponse has endpoints respond before they have read a large body, and close.
func TestEarlyResponse(t *testing.T) {
	body := make([]byte, 16<<20)
	const says = "HTTP 413 Request Entity Too Large: too large"
	early := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "too large")
	}
	try := func(name string, o Options) {
		t.Run(name, func(t *testing.T) {
			e := endpoint(t, o)
			for range 20 {
				if got := attempt(t, e, amqp.Delivery{Body: body}); got.Outcome != consumer.OutcomeRetry ||
					got.Err.Error() != says {
					t.Fatalf("%s: %v", got.Outcome, got.Err)
				}
			}
		})
	}
	try("HTTP/1.1 of Go", Options{URL: serve(t, early).URL})
	s := secure(t, early)
	try("HTTP/1.1 and TLS of Go", Options{URL: s.URL})
	try("HTTP/1.1, closed at once", Options{URL: "http://" + abrupt(t, nil)})
	try("HTTP/1.1 and TLS, closed at once", Options{URL: "https://" + abrupt(t, s.TLS)})
}

// abrupt responds 413 after the first bytes of a request, and closes the connection, which resets it: the rest is not
// read.
func abrupt(t *testing.T, secure *tls.Config) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go refuse(conn, secure)
		}
	}()
	return listener.Addr().String()
}

func refuse(conn net.Conn, secure *tls.Config) {
	defer conn.Close()
	to := conn
	if secure != nil {
		to = tls.Server(conn, &tls.Config{Certificates: secure.Certificates, MinVersion: tls.VersionTLS12})
	}
	if _, err := http.ReadRequest(bufio.NewReader(to)); err == nil {
		_, _ = io.WriteString(to, "HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\nContent-Length: "+
			"9\r\n\r\ntoo large")
	}
}
