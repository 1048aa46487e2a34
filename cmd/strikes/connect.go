package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/amqpdial"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/publisher"
)

const (
	checkTimeout = 5 * time.Second
	closeTimeout = 5 * time.Second
)

// broker is where the connections of a command go.
type broker struct {
	url   string
	vhost string
	name  string // of the connections, for those who look at the broker
}

func brokerOf(c *cli.Command) (*broker, error) { return newBroker(c.String("amqp-url"), c.FullName()) }

func newBroker(rawURL, name string) (*broker, error) {
	at, err := amqpdial.Parse(rawURL)
	if err != nil {
		return nil, usagef("--amqp-url: %w", err)
	}
	return &broker{url: rawURL, vhost: at.Vhost, name: name}, nil
}

// dial opens a connection, which the caller closes. It returns when ctx is done.
func (b *broker) dial(ctx context.Context) (*amqp.Connection, error) {
	return b.open(ctx, consumer.Dialer)
}

// dialToPublish opens one for a publisher.Publisher.
func (b *broker) dialToPublish(ctx context.Context) (*amqp.Connection, error) {
	return b.open(ctx, publisher.BufferedDialer)
}

func (b *broker) open(ctx context.Context, dialer func(string, amqp.Config) func(context.Context) (*amqp.Connection, error)) (*amqp.Connection, error) {
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(b.name)
	conn, err := dialer(b.url, amqp.Config{Properties: properties})(ctx)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(ctx.Err(), context.Canceled): // a deadline tells of the broker
		return nil, ctx.Err()
	}
	return nil, b.explainDial(ctx, err)
}

// explain tells a broker that says no from one that does not answer.
func (b *broker) explain(err error) error {
	if denied(err) {
		return coded{fmt.Errorf("broker %s: not authorised: %w", setting.RedactURL(b.url), err), exitDenied}
	}
	return coded{fmt.Errorf("broker %s is out of reach: %w", setting.RedactURL(b.url), err), exitUnreachable}
}

// explainDial also tells what is wrong with the URL.
func (b *broker) explainDial(ctx context.Context, err error) error {
	at := setting.RedactURL(b.url)
	switch {
	case missingVHost(err):
		return usagef("broker %s: there is no virtual host %q: %w", at, b.vhost, err)
	case denied(err):
		return b.explain(err)
	case errors.As(err, new(x509.HostnameError)):
		return coded{fmt.Errorf("broker %s: its certificate is for another name: %w; connect to a name that it is for, or give one with the URL's parameter server_name_indication", at, err), exitUnreachable}
	case untrusted(err):
		return coded{fmt.Errorf("broker %s: its certificate is not trusted: %w; give a file of trusted authorities with the URL's parameter cacertfile", at, err), exitUnreachable}
	case errors.As(err, new(*fs.PathError)):
		return usagef("broker %s: a file that the URL names cannot be used: %w", at, err)
	}
	if why := wrongProtocol(ctx, b.url); why != "" {
		return usagef("broker %s: %s: %w", at, why, err)
	}
	return b.explain(err)
}

// missingVHost reports whether the broker has no virtual host of the URL's name. A user without access to one gets the same code.
func missingVHost(err error) bool {
	var reply *amqp.Error
	return errors.As(err, &reply) && reply.Server && reply.Code == amqp.NotAllowed &&
		strings.HasPrefix(reply.Reason, "NOT_ALLOWED - vhost ") && strings.HasSuffix(reply.Reason, " not found")
}

// untrusted reports whether a server's certificate was not accepted.
func untrusted(err error) bool { return errors.As(err, new(*tls.CertificateVerificationError)) }

// denied reports whether the broker refused the login. amqp091-go does not ask it to say so of a wrong password: RabbitMQ
// then closes the socket, as one that is just starting may do as well.
func denied(err error) bool {
	var answer *amqp.Error
	return errors.Is(err, amqp.ErrSASL) || errors.Is(err, amqp.ErrCredentials) ||
		errors.As(err, &answer) && answer.Server && answerCode(answer.Code) == exitDenied
}

// after returns a dial that hands out conn first, so that a connection which was opened to see whether it can be is used.
func after(conn *amqp.Connection, dial func(context.Context) (*amqp.Connection, error)) func(context.Context) (*amqp.Connection, error) {
	return func(ctx context.Context) (*amqp.Connection, error) {
		if first := conn; first != nil {
			conn = nil
			return first, nil
		}
		return dial(ctx)
	}
}

// with calls f with a connection of its own.
func (b *broker) with(ctx context.Context, f func(*amqp.Connection) error) error {
	conn, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer closeConnection(conn)
	return f(conn)
}

// closeConnection ends a connection on which nothing is under way any more.
func closeConnection(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now().Add(closeTimeout)) }

// storeOf opens the store and makes sure that it answers.
func storeOf(ctx context.Context, c *cli.Command) (*counter.Counter, error) {
	return openStore(ctx, c.String("redis-url"), c.String("prefix"))
}

// dialStore opens a store, of which nobody knows whether it is there.
func dialStore(rawURL, prefix string) (*counter.Counter, error) {
	store, err := counter.Dial(rawURL, &counter.Options{Prefix: prefix})
	var field *setting.FieldError
	switch {
	case errors.As(err, &field) && fieldFlags[field.Field] == "": // of the URL
		return nil, usagef("--redis-url: %w", field)
	case err != nil:
		return nil, usage(err)
	}
	return store, nil
}

const mendDatabase = "mend the number at the end of the store's URL: redis-cli CONFIG GET databases tells how many there are, and a Cluster has 0 alone"

// noDatabase reports whether a server refused the number of a database, which no Cause tells.
func noDatabase(err error) bool {
	return strings.Contains(err.Error(), "DB index is out of range") || strings.Contains(err.Error(), "SELECT is not allowed in cluster mode")
}

func openStore(ctx context.Context, rawURL, prefix string) (*counter.Counter, error) {
	store, err := dialStore(rawURL, prefix)
	if err != nil {
		return nil, err
	}
	check, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if _, err := store.Check(check); err != nil {
		return nil, errors.Join(fmt.Errorf("store %s: %w", setting.RedactURL(rawURL), explainStore(ctx, rawURL, err)), store.Close())
	}
	return store, nil
}

// explainStore adds to the error of a store what is wrong with its URL, if anything is.
func explainStore(ctx context.Context, rawURL string, err error) error {
	var failed *counter.StoreError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case noDatabase(err):
		return usagef("it has no such database: %w; %s", err, mendDatabase)
	case untrusted(err):
		return coded{fmt.Errorf("its certificate is not trusted: %w; give a file of trusted authorities with the environment variable SSL_CERT_FILE", err), exitUnreachable}
	case errors.As(err, &failed) && failed.Fault == counter.FaultDenied:
		return err
	}
	if why := wrongProtocol(ctx, rawURL); why != "" {
		return usagef("%s: %w", why, err)
	}
	return err
}
