// Package connect leads from the URLs that flags name to the broker, its management API and the store.
package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/setting"
)

const (
	// CheckTimeout bounds one question to the store.
	CheckTimeout = 5 * time.Second
	closeTimeout = 2 * time.Second
)

// Broker is where the connections of a command go.
type Broker struct {
	URL   string
	VHost string

	name   string // of the connections, as the broker lists them
	called string // the source of the URL

	management       string // URL of the management API; empty: it is looked for at its usual address
	managementCalled string // the source of that URL
}

// NewBroker reads a URL. The broker lists the connections by name. An error names the source of the URL as called, for
// example --amqp-url. Empty means the default.
func NewBroker(rawURL, name, called string) (*Broker, error) {
	at, err := broker.ParseURL(rawURL)
	if err != nil {
		return nil, refusedURL(called, kindBroker, err)
	}
	return &Broker{URL: rawURL, VHost: at.Vhost, name: name, called: called}, nil
}

// Dial opens a connection, which the caller closes. It returns when ctx is done.
func (b *Broker) Dial(ctx context.Context) (*amqp.Connection, error) {
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(b.name)
	conn, err := consumer.Dialer(b.URL, amqp.Config{Properties: properties})(ctx)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(ctx.Err(), context.Canceled): // a deadline says something about the broker
		return nil, ctx.Err()
	}
	coded := b.coded(err)
	if cli.ExitCode(coded) == cli.ExitUnreachable && !untrusted(err) {
		if why := wrongScheme(ctx, b.URL, err); why != "" {
			return nil, cli.Misusef("broker %s: %s (%w); %s", setting.RedactURL(b.URL), why, errors.Unwrap(err),
				sourceOf(kindBroker, b.called))
		}
	}
	return nil, coded
}

// Explain adds the broker, a remedy, the source of the URL and an exit code to the error of a lost connection.
func (b *Broker) Explain(err error) error { return b.coded(broker.Explain(b.URL, err)) }

// coded gives an error of the broker its exit code, and adds the source of the URL.
func (b *Broker) coded(err error) error {
	code := cli.ExitUnreachable
	switch {
	case broker.MissingVHost(err), errors.As(err, new(*fs.PathError)):
		code = cli.ExitMisuse
	case broker.Denied(err):
		code = cli.ExitDenied
	}
	return cli.WithCode(fmt.Errorf("%w; %s", err, sourceOf(kindBroker, b.called)), code)
}

func untrusted(err error) bool { return errors.As(err, new(*tls.CertificateVerificationError)) }

// After returns a dial that hands out conn first, so that a connection which was opened to see whether it can be is
// used.
func After(conn *amqp.Connection, dial func(context.Context) (*amqp.Connection, error)) func(context.Context) (
	*amqp.Connection, error) {
	return func(ctx context.Context) (*amqp.Connection, error) {
		if first := conn; first != nil {
			conn = nil
			return first, nil
		}
		return dial(ctx)
	}
}

// With calls f with a connection of its own. If the connection ends while f runs, the error of f says that the broker
// is out of reach, unless f has found that the request was wrong.
func (b *Broker) With(ctx context.Context, f func(*amqp.Connection) error) error {
	conn, err := b.Dial(ctx)
	if err != nil {
		return err
	}
	defer Close(conn)
	if err = f(conn); err != nil && conn.IsClosed() && ctx.Err() == nil && cli.ExitCode(err) != cli.ExitMisuse {
		err = b.Explain(err)
	}
	return err
}

// Close ends a connection on which nothing is under way any more.
func Close(conn *amqp.Connection) { broker.HangUpWithin(conn, closeTimeout) }

// handshakeTimeout bounds the wait for a server that may not know TLS.
const handshakeTimeout = time.Second

// wrongScheme names the scheme to write if the server at a URL speaks TLS and the scheme does not, or the reverse.
// The connection failed with err. wrongScheme returns "" if the scheme is right, or the server does not answer. It
// sends no password.
func wrongScheme(ctx context.Context, rawURL string, err error) string {
	u, _, unreadable := setting.ParseURL(rawURL)
	if unreadable != nil || u.Host == "" {
		return ""
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+") // redis+cluster
	if kind != "" {
		kind = "+" + kind
	}
	var port string
	switch scheme {
	case "amqps", "rediss":
		if errors.As(err, new(tls.RecordHeaderError)) {
			return fmt.Sprintf("it does not speak TLS: write %s%s:// instead of %s://", scheme[:len(scheme)-1], kind, u.Scheme)
		}
		return ""
	case "amqp":
		port = "5672"
	case "redis":
		port = "6379"
	default:
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	//nolint:gosec // the owner of the certificate does not matter, because nothing is sent
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: u.Hostname()}}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
	if err != nil {
		return ""
	}
	_ = conn.Close()
	return fmt.Sprintf("it speaks TLS: write %ss%s:// instead of %s://", scheme, kind, u.Scheme)
}
