// Package connect leads from the URLs that flags name to the broker, its management API and the store.
package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"regexp"
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
		return nil, refusedURL(called, kindBroker, rawURL, err)
	}
	return &Broker{URL: rawURL, VHost: at.Vhost, name: name, called: called}, nil
}

// Dial opens a connection, which the caller closes. It returns when ctx is done.
func (b *Broker) Dial(ctx context.Context) (*amqp.Connection, error) {
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(b.name)
	dialing := ctx
	if end, set := ctx.Deadline(); set { // some time is for wrongServer; RabbitMQ refuses a password after 3 s
		var cancel context.CancelFunc
		dialing, cancel = context.WithDeadline(ctx, end.Add(-min(time.Until(end)/4, 500*time.Millisecond)))
		defer cancel()
	}
	conn, err := consumer.Dialer(b.URL, amqp.Config{Properties: properties})(dialing)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(ctx.Err(), context.Canceled): // a deadline says something about the broker
		return nil, ctx.Err()
	}
	coded := b.coded(err)
	if cli.ExitCode(coded) == cli.ExitUnreachable && !untrusted(err) {
		if why := wrongServer(ctx, b.URL); why != "" {
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

// untrusted reports whether a server's certificate was not accepted.
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

// Partitions counts the partitions of a queue; 0: it has none.
func (b *Broker) Partitions(ctx context.Context, queue string) (n int, err error) {
	err = b.With(ctx, func(conn *amqp.Connection) error {
		n, err = broker.PartitionsOf(ctx, conn, queue)
		return err
	})
	return n, err
}

// Close ends a connection on which nothing is under way any more.
func Close(conn *amqp.Connection) { broker.HangUpWithin(conn, closeTimeout) }

// speakTimeout bounds the wait for a server that may not answer a protocol that it does not know.
const speakTimeout = time.Second

// plainSchemes maps the scheme of a URL to that of the same protocol without TLS. ports maps it to its default port.
// protocols maps a plain scheme to the protocol's name. answers maps it to the pattern of the first bytes of a reply to
// PING, or to sslRequest if the server closes the connection after PING, as PostgreSQL does. RabbitMQ answers anything
// with the header of its version, and MySQL with the length of its greeting. PostgreSQL answers with an error, S or N.
var (
	plainSchemes = map[string]string{"amqp": "amqp", "amqps": "amqp", "redis": "redis", "rediss": "redis",
		"postgres": "postgres", "postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}
	ports = map[string]string{"amqp": "5672", "amqps": "5671", "redis": "6379", "rediss": "6379", "postgres": "5432",
		"postgresql": "5432", "mysql": "3306", "mariadb": "3306"}
	protocols = map[string]string{"amqp": "AMQP", "redis": "Redis", "postgres": "PostgreSQL", "mysql": "MySQL"}
	answers   = map[string]*regexp.Regexp{"amqp": regexp.MustCompile("^AM"), "redis": regexp.MustCompile("^[+-]"),
		"postgres": regexp.MustCompile("^[ENS]"), "mysql": regexp.MustCompile("(?s)^.\x00")}
)

// sslRequest asks a PostgreSQL server for TLS.
const sslRequest = "\x00\x00\x00\x08\x04\xd2\x16\x2f"

// wrongServer names the fault if the server at a URL speaks TLS and the scheme does not, or the reverse, or if it
// speaks another protocol. It returns "" if nothing is wrong, or the server does not answer. It sends no password.
func wrongServer(ctx context.Context, rawURL string) string {
	u, _, err := setting.ParseURL(rawURL)
	if err != nil || u.Host == "" {
		return ""
	}
	scheme, _, _ := strings.Cut(u.Scheme, "+") // redis+cluster
	plain, known := plainSchemes[scheme]
	if !known {
		return ""
	}
	kind, addr := strings.TrimPrefix(u.Scheme, scheme), net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), ports[scheme]))
	first, err := reply(ctx, addr, "PING\r\n\r\n")
	if (err != nil || first[0] == tlsAlert) && plainSchemes[scheme+"s"] != "" &&
		ask(ctx, addr, func(ctx context.Context, conn net.Conn) error {
			//nolint:gosec // the owner of the certificate does not matter, because nothing is sent
			secure := &tls.Config{InsecureSkipVerify: true, ServerName: u.Hostname()}
			return tls.Client(conn, secure).HandshakeContext(ctx)
		}) == nil {
		return fmt.Sprintf("it speaks TLS: write %s:// instead of %s://", plain+"s"+kind, u.Scheme)
	}
	if errors.Is(err, io.EOF) {
		first, err = reply(ctx, addr, sslRequest)
	}
	switch {
	case err != nil, first[0] == tlsAlert:
	case !answers[plain].Match(first):
		return fmt.Sprintf("the server at %s did not answer as %s: correct host and port", addr, protocols[plain])
	case scheme == plain+"s":
		return fmt.Sprintf("it does not speak TLS: write %s:// instead of %s://", plain+kind, u.Scheme)
	}
	return ""
}

// tlsAlert begins the answer of TLS to anything else.
const tlsAlert = 0x15

// reply sends a question to a server, and returns the first byte or two of its reply.
func reply(ctx context.Context, addr, question string) (first []byte, err error) {
	err = ask(ctx, addr, func(_ context.Context, conn net.Conn) error {
		if _, err := io.WriteString(conn, question); err != nil {
			return err
		}
		buffer := make([]byte, 2)
		n, err := conn.Read(buffer)
		first = buffer[:n]
		return err
	})
	return first, err
}

// ask calls f with a connection that closes after speakTimeout.
func ask(ctx context.Context, addr string, f func(context.Context, net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, speakTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	return f(ctx, conn)
}
