package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/shell"
)

// guessTimeout bounds the wait for an answer that a command can do without.
const guessTimeout = 3 * time.Second

// guessing takes no proxy: the AMQP password goes to the broker's host and nowhere else.
var guessing = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Management adds the management API to need: the one that --management-url names, or the one at its usual address if
// it answers. The error says why that cannot be used; AMQP shows less then.
func (b *Broker) Management(ctx context.Context, conn *amqp.Connection, need inspect.Need) (inspect.Need, error) {
	if need.Management = b.management; need.Management != "" {
		return need, nil
	}
	ctx, cancel := context.WithTimeout(ctx, guessTimeout)
	defer cancel()
	with := need
	if with.Management = GuessManagement(b.URL); with.Management == "" {
		return need, errors.New("the AMQP port is too high to derive a management port")
	}
	var err error
	if with.HTTPClient, err = b.guessing(); err == nil {
		err = doctor.TryManagement(ctx, conn, with)
	}
	if err != nil {
		return need, err
	}
	return with, nil
}

// ManagementSource says where the URL of the management API came from, and if it was not given, how to do without it.
func (b *Broker) ManagementSource() string {
	if b.management == "" {
		return "this is the usual address of the management API; name a queue, or give --management-url"
	}
	return b.managementCalled + " gives this URL"
}

// guessing is a client that trusts the same certificates as the AMQP connection.
func (b *Broker) guessing() (*http.Client, error) {
	uri, err := amqp.ParseURI(b.URL)
	if err != nil || uri.Scheme != "amqps" || uri.CACertFile == "" && uri.CertFile == "" && uri.ServerName == "" {
		return guessing, nil // the URL was parsed before
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: uri.ServerName}
	if uri.CACertFile != "" {
		ca, err := os.ReadFile(uri.CACertFile)
		if err != nil {
			return nil, fmt.Errorf("read the CA certificate of the AMQP URL: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		settings.RootCAs.AppendCertsFromPEM(ca)
	}
	if uri.CertFile != "" && uri.KeyFile != "" {
		own, err := tls.LoadX509KeyPair(uri.CertFile, uri.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load the client certificate of the AMQP URL: %w", err)
		}
		settings.Certificates = []tls.Certificate{own}
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: settings}}, nil
}

// GuessManagement is where the API of a broker usually is: its port is 10000 above the one for AMQP, and encrypted if
// that is. A password that went over an encrypted connection goes over no other.
func GuessManagement(amqpURL string) string {
	uri, err := amqp.ParseURI(amqpURL)
	if err != nil || uri.Port > 65535-10000 {
		return ""
	}
	at := url.URL{
		Scheme: map[bool]string{true: "https", false: "http"}[uri.Scheme == "amqps"],
		User:   url.UserPassword(uri.Username, uri.Password),
		Host:   net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port+10000)),
	}
	return at.String()
}

// noQueueError is broker.ErrNotFound with a text of its own.
type noQueueError struct{ text string }

func (e noQueueError) Error() string { return e.text }
func (noQueueError) Unwrap() error   { return broker.ErrNotFound }

// NoQueue replaces the error for a queue that does not exist: it says how to declare the queue. It returns any other
// error as it is.
func (b *Broker) NoQueue(queue string, err error) error {
	if !errors.Is(err, broker.ErrNotFound) || errors.As(err, new(noQueueError)) {
		return err
	}
	return cli.Misuse(noQueueError{fmt.Sprintf("there is no queue %q in virtual host %q (strikes status lists the "+
		"queues, strikes declare %s makes this one)", queue, b.VHost, shell.Operands(queue))})
}

// RefuseMissing refuses a queue or virtual host that the broker does not have, as Partitions does. It also refuses a
// partition, because messages are counted under the name of the partitioned queue. It asks for three seconds at most,
// and refuses nothing if the broker does not answer: the records of a queue are in the store.
func (f *Flags) RefuseMissing(ctx context.Context, queue string) error {
	of, _, err := f.Partitions(ctx, queue)
	if err == nil && of != "" && of != queue {
		err = cli.Misusef("queue %q is a partition of %q, which has its counts: run the command with %[2]q", queue, of)
	}
	return err
}

// Partitions returns the same as broker.FindPartitions, and refuses a queue that does not exist, as NoQueue does, or
// whose virtual host does not. Without an answer of the broker within three seconds, of is empty.
func (f *Flags) Partitions(ctx context.Context, queue string) (of string, n int, err error) {
	b, err := f.Broker()
	if err != nil {
		return "", 0, nil // it cannot be asked
	}
	asking, cancel := context.WithTimeout(ctx, guessTimeout)
	defer cancel()
	found := broker.Unknown
	err = b.With(asking, func(conn *amqp.Connection) (err error) {
		if of, n, err = broker.FindPartitions(asking, conn, queue); of == "" && err == nil {
			found, _, err = broker.FindQueue(asking, conn, queue)
		}
		return err
	})
	switch {
	case broker.MissingVHost(err):
		return "", 0, err
	case found == broker.No:
		return "", 0, b.NoQueue(queue, broker.ErrNotFound)
	}
	return of, n, nil // after another error it is not known
}
