package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/topology"
)

// guessTimeout bounds the wait for an API that nobody said is there.
const guessTimeout = 3 * time.Second

// guessing takes no proxy: a password that nobody gave for this goes to the broker's host and nowhere else.
var guessing = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// guess tries the usual place of the management API, unless one was given.
func (r *rounds) guess(ctx context.Context, b *broker) {
	if r.need.Management != "" {
		return
	}
	var err error
	if r.need, err = b.guess(ctx, r.conn, r.need); err != nil {
		fmt.Fprintf(r.app.stderr, "strikes: going without the management API (none was given, and its usual place was tried): %s\n",
			printable(err.Error(), ""))
	}
}

// findManagement gives a consumer the management API in its usual place, unless one was given, as the doctor does. One that
// does not answer is not missed there: most consumers do without. What it would have shown is in the warnings of the check.
func (a *app) findManagement(ctx context.Context, b *broker, conn *amqp.Connection, c *consumer.Consumer) {
	if c.Management != "" {
		return
	}
	need, err := b.guess(ctx, conn, topology.Need{})
	if errors.Is(err, topology.ErrManagementDenied) {
		fmt.Fprintf(a.stderr, "strikes: going without the management API (none was given, and its usual place was tried): %s\n",
			printable(err.Error(), ""))
	}
	c.Management, c.HTTPClient = need.Management, need.HTTPClient
}

// guess adds the management API to what is needed, if it is in its usual place.
func (b *broker) guess(ctx context.Context, conn *amqp.Connection, need topology.Need) (topology.Need, error) {
	ctx, cancel := context.WithTimeout(ctx, guessTimeout)
	defer cancel()
	with := need
	with.Management = guessManagement(b.url)
	with.HTTPClient = guessing
	if err := topology.TryManagement(ctx, conn, with); err != nil {
		return need, err
	}
	return with, nil
}

// guessManagement is where the API of a broker usually is: its port is 10000 above the one for AMQP, and encrypted if
// that is. A password that went over an encrypted connection goes over no other.
func guessManagement(amqpURL string) string {
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
