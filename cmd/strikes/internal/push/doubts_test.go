package push

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/broker"
)

// endings returns the outcomes of attempts in a row at one message.
func endings(t *testing.T, e *Endpoint, d amqp.Delivery, n int) (outcomes, says []string) {
	t.Helper()
	for range n {
		got := attempt(t, e, d)
		text := ""
		if got.Err != nil {
			text = got.Err.Error()
		}
		outcomes, says = append(outcomes, string(got.Outcome)), append(says, text)
	}
	return outcomes, says
}

// TestTooLargeHeaders: a request that the endpoint never takes is a failed attempt.
func TestTooLargeHeaders(t *testing.T) {
	s, ca, _, _ := secure(t, status(200, ""), func(s *httptest.Server) { s.Config.MaxHeaderBytes = 1 << 10 })
	e := endpoint(t, Options{URL: s.URL, CA: ca})
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

// TestRequestedCertificate has an endpoint that asks for a certificate, takes none, and ends each connection. The end
// of a connection is a crash immediately, because a refusal would have been read. A reset may have lost the refusal,
// but not each time.
func TestRequestedCertificate(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*tls.Conn)
		want string
	}{
		{"an end", func(c *tls.Conn) { _ = c.NetConn().Close() }, "crash crash"},
		{"a reset", func(c *tls.Conn) { reset(c.NetConn()) }, "not-counted not-counted not-counted crash crash"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asks := func(s *httptest.Server) { s.TLS.ClientAuth = tls.RequestClientCert }
			s, ca, _, _ := secure(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				tc.end(hijack(t, w).(*tls.Conn))
			}, asks)
			outcomes, says := endings(t, endpoint(t, Options{URL: s.URL, CA: ca}), amqp.Delivery{Body: []byte("x")},
				strings.Count(tc.want, " ")+1)
			if got := strings.Join(outcomes, " "); got != tc.want {
				t.Errorf("%s: %q", got, says)
			}
		})
	}
}

// TestDoubtsEnd: a response begins the count anew.
func TestDoubtsEnd(t *testing.T) {
	var d doubts
	for range mostDoubts {
		if !d.more("m") {
			t.Fatal("no doubt")
		}
	}
	if d.more("m") || !d.more("other") {
		t.Error("doubts have no bound, or are those of another message")
	}
	d.forget("m")
	if !d.more("m") {
		t.Error("a response did not end them")
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
	s, ca, _, _ := secure(t, early)
	try("HTTP/1.1 and TLS of Go", Options{URL: s.URL, CA: ca})
	try("HTTP/1.1, closed at once", Options{URL: "http://" + abrupt(t, nil)})
	try("HTTP/1.1 and TLS, closed at once", Options{URL: "https://" + abrupt(t, s.TLS), CA: ca})
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
