package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
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
	uri, err := amqp.ParseURI(rawURL)
	if err != nil || !readable(rawURL) {
		// what the parser says quotes the URL, password and all
		return nil, usagef("the broker's URL cannot be read: it is amqp[s]://user:password@host:port/vhost, the port at most 65535, with / @ : ? # %% in a name or password percent-encoded")
	}
	return &broker{url: rawURL, vhost: uri.Vhost, name: name}, nil
}

// dial opens a connection, which the caller closes. It returns when ctx is done.
func (b *broker) dial(ctx context.Context) (*amqp.Connection, error) {
	return b.open(ctx, consumer.Dialer)
}

// dialToPublish opens one for a publisher.Publisher.
func (b *broker) dialToPublish(ctx context.Context) (*amqp.Connection, error) {
	return b.open(ctx, publisher.Dialer)
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
	return nil, b.explain(err)
}

// explain tells a broker that says no from one that does not answer.
func (b *broker) explain(err error) error {
	if denied(err) {
		return coded{fmt.Errorf("broker %s: not authorised: %w", redacted(b.url), err), exitDenied}
	}
	return coded{fmt.Errorf("broker %s is out of reach: %w", redacted(b.url), err), exitUnreachable}
}

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
	if !readable(rawURL) {
		return nil, usagef("the store's URL cannot be read: it is like redis://user:password@host:port/db, the port at most 65535 and db a number, with / @ : ? # %% in a name or password percent-encoded")
	}
	if !validDatabase(rawURL) {
		return nil, usagef("the store's URL names a database that is no number: it is like redis://user:password@host:port/0")
	}
	store, err := counter.Dial(rawURL, &counter.Options{Prefix: prefix})
	if err != nil {
		return nil, usagef("%s", withoutGo(err.Error()))
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
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case noDatabase(err):
			err = usagef("it has no such database: %w; %s", err, mendDatabase)
		}
		return nil, errors.Join(fmt.Errorf("store %s: %w", redacted(rawURL), err), store.Close())
	}
	return store, nil
}
