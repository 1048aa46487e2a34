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
	"github.com/strikesmq/strikes/publisher"
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

	name       string // of the connections, as the broker lists them
	called     string // the source of the URL
	management string // URL of the management API; empty: it is looked for at its usual address
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
	return b.open(ctx, consumer.Dialer)
}

// DialToPublish opens one for a publisher.Publisher.
func (b *Broker) DialToPublish(ctx context.Context) (*amqp.Connection, error) {
	return b.open(ctx, publisher.BufferedDialer)
}

func (b *Broker) open(ctx context.Context, dialer func(string, amqp.Config) func(context.Context) (*amqp.Connection,
	error)) (*amqp.Connection, error) {
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(b.name)
	conn, err := dialer(b.URL, amqp.Config{Properties: properties})(ctx)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(ctx.Err(), context.Canceled): // a deadline says something about the broker
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w; %s", b.explainDial(ctx, err), sourceOf(kindBroker, b.called))
}

// Explain distinguishes a broker that refuses from one that does not answer.
func (b *Broker) Explain(err error) error {
	if broker.Denied(err) {
		return cli.WithCode(fmt.Errorf("broker %s: not authorised: %w", setting.RedactURL(b.URL), err), cli.ExitDenied)
	}
	return cli.WithCode(fmt.Errorf("broker %s is out of reach: %w", setting.RedactURL(b.URL), err), cli.ExitUnreachable)
}

// explainDial gives the error of a dial its exit code, and adds the defect of the URL.
func (b *Broker) explainDial(ctx context.Context, err error) error {
	switch {
	case broker.MissingVHost(err), errors.As(err, new(*fs.PathError)):
		return cli.Misuse(err)
	case broker.Denied(err):
		return cli.WithCode(err, cli.ExitDenied)
	case untrusted(err):
		return cli.WithCode(err, cli.ExitUnreachable)
	}
	if why := wrongServer(ctx, b.URL); why != "" {
		return cli.Misusef("broker %s: %s (%w)", setting.RedactURL(b.URL), why, errors.Unwrap(err))
	}
	return cli.WithCode(err, cli.ExitUnreachable)
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
// protocols maps a plain scheme to the protocol's name. answers maps it to the pattern of the first two bytes of a
// reply to PING. RabbitMQ answers anything with the header of its version, and MySQL with the length of its greeting.
// PostgreSQL closes the connection, or reports an error.
var (
	plainSchemes = map[string]string{"amqp": "amqp", "amqps": "amqp", "redis": "redis", "rediss": "redis",
		"postgres": "postgres", "postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}
	ports = map[string]string{"amqp": "5672", "amqps": "5671", "redis": "6379", "rediss": "6379", "postgres": "5432",
		"postgresql": "5432", "mysql": "3306", "mariadb": "3306"}
	protocols = map[string]string{"amqp": "AMQP", "redis": "Redis", "postgres": "PostgreSQL", "mysql": "MySQL"}
	answers   = map[string]*regexp.Regexp{"amqp": regexp.MustCompile("^A"), "redis": regexp.MustCompile("^[+-]"),
		"postgres": regexp.MustCompile("^E"), "mysql": regexp.MustCompile("(?s)^.\x00")}
)

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
	if plainSchemes[scheme+"s"] != "" && ask(ctx, addr, func(ctx context.Context, conn net.Conn) error {
		//nolint:gosec // the owner of the certificate does not matter, because nothing is sent
		return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	}) == nil {
		return fmt.Sprintf("it speaks TLS: write %s:// instead of %s://", plain+"s"+kind, u.Scheme)
	}
	first := make([]byte, 2)
	err = ask(ctx, addr, func(_ context.Context, conn net.Conn) error {
		if _, err := io.WriteString(conn, "PING\r\n\r\n"); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, first)
		return err
	})
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
