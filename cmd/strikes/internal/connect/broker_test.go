package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

// TestDialStops dials something that accepts and never answers, as a broker behind a stuck proxy does.
func TestDialStops(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	defer l.Close()
	b, err := NewBroker("amqp://guest:secret@"+l.Addr().String()+"/", "test", "--amqp-url")
	need(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := b.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) || cli.ExitCode(err) != cli.ExitUnreachable ||
		!strings.HasSuffix(err.Error(), "/ is out of reach: the broker does not answer: context deadline exceeded; "+
			"start it, or correct host and port in the URL; --amqp-url gives this URL") {
		t.Errorf("%d: %v", cli.ExitCode(err), err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestDialErrors(t *testing.T) {
	b, err := NewBroker("amqp://guest:secret@127.0.0.1:1/", "test", "--amqp-url")
	need(t, err)
	_, err = b.Dial(t.Context())
	if cli.ExitCode(err) != cli.ExitUnreachable || strings.Contains(err.Error(), "secret") ||
		!strings.Contains(err.Error(), "guest:xxxxx@") {
		t.Errorf("%d: %v", cli.ExitCode(err), err)
	}
	if lost := b.Explain(amqp.ErrClosed).Error(); !strings.HasSuffix(lost, "; start it, or correct host and port in the "+
		"URL; --amqp-url gives this URL") {
		t.Error(lost)
	}
	answers := []struct {
		err  error
		want int
	}{
		{amqp.ErrCredentials, cli.ExitDenied},
		{amqp.ErrSASL, cli.ExitDenied},
		{&amqp.Error{Code: amqp.NotAllowed, Server: true}, cli.ExitDenied},
		{&amqp.Error{Code: amqp.NotAllowed, Server: true, Reason: "NOT_ALLOWED - access to vhost '/' refused for user " +
			"'guest': connection limit (1) is reached"}, cli.ExitUnreachable},
		{amqp.ErrVhost, cli.ExitUnreachable}, // the socket closed
		{errors.New("x509"), cli.ExitUnreachable},
	}
	for _, a := range answers {
		if got := cli.ExitCode(b.Explain(a.err)); got != a.want {
			t.Errorf("%v: exit code %d, want %d", a.err, got, a.want)
		}
	}
}

// TestWrongScheme dials a server that speaks TLS and has a certificate for one name only.
func TestWrongScheme(t *testing.T) {
	cert := httptest.NewTLSServer(nil)
	cert.Close()
	byName := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.ServerName != "localhost" {
			return nil, errors.New("which name?")
		}
		return &cert.TLS.Certificates[0], nil
	}}
	at := served(t, func(conn net.Conn) { _ = tls.Server(conn, byName).HandshakeContext(t.Context()) })
	b, err := NewBroker("amqp://guest:secret@"+at+"/", "test", "--amqp-url")
	need(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = b.Dial(ctx)
	const want = "it speaks TLS: write amqps:// instead of amqp:// ("
	if cli.ExitCode(err) != cli.ExitMisuse || !strings.Contains(err.Error(), want) {
		t.Errorf("%d: %v", cli.ExitCode(err), err)
	}
}

// served returns an address of localhost at which a function serves each connection.
func served(t *testing.T, serve func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer conn.Close(); serve(conn) })
		}
	})
	return strings.Replace(l.Addr().String(), "127.0.0.1", "localhost", 1)
}
