// Package push hands messages to an HTTP endpoint: each is a POST, whose response decides between ack, retry and dead
// letter.
package push

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/setting"
)

// Options say where messages are posted to, and how. The zero value of each but the URL is useful.
type Options struct {
	URL         string // http or https; a user and password in it are sent as basic authentication
	TokenFile   string // file of a bearer token, read for each attempt; if empty, none
	Queue       string // that the messages come from
	Connections int    // idle connections to keep; if zero, 2
}

const (
	dialTimeout = 10 * time.Second // for the connection, and again for TLS
	idleTimeout = 30 * time.Second // until an unused connection is closed
	maxHeaders  = 64 << 10         // bytes of a response's headers
)

// Endpoint posts messages. Many goroutines may call its methods.
type Endpoint struct {
	Options
	url       *url.URL
	transport *http.Transport
	fresh     *http.Transport // makes a connection for each request
	heard     atomic.Bool     // it has responded, and refused no certificate since
	cancelled context.Context //nolint:containedctx // the lifetime of all attempts
	cancel    context.CancelFunc
}

// New returns an Endpoint for valid Options. It reads the token, and does not ask the endpoint. The error names the
// flag of consume that is refused; it holds no password and no token.
func New(o Options) (*Endpoint, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.TokenFile != "" {
		if u.User != nil {
			return nil, &setting.FieldError{Field: "--http-token-file", Want: "left out if the URL has a user", Value: "both"}
		}
		if _, err := o.token(); err != nil {
			return nil, err
		}
	}
	e := &Endpoint{Options: o, url: u, transport: transport(o.Connections), fresh: transport(0)}
	e.fresh.DisableKeepAlives = true
	e.cancelled, e.cancel = context.WithCancel(context.Background())
	return e, nil
}

// transport speaks HTTP/1.1. Each connection has one request at a time, so its end ends only one attempt.
func transport(connections int) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &readFirst{Conn: conn, over: make(chan struct{})}, nil
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dial, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
		TLSHandshakeTimeout: dialTimeout, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: connections,
		DisableCompression: true, MaxResponseHeaderBytes: maxHeaders,
	}
}

// parseURL refuses a text that is no URL of an endpoint, without quoting it.
func parseURL(raw string) (*url.URL, error) {
	u, _, err := setting.ParseURL(raw)
	refused := &setting.FieldError{Field: "--http", Want: "http[s]://user:password@host:port/path, without a fragment",
		Value: "one that cannot be parsed"}
	switch {
	case !strings.Contains(raw, "://"):
		refused.Value = "one without http:// or https://"
		return nil, refused
	case err != nil || u.Hostname() == "" || strings.HasSuffix(u.Host, ":"):
		return nil, refused
	case u.Scheme != "http" && u.Scheme != "https":
		refused.Value = "the scheme " + u.Scheme
		return nil, refused
	case strings.Contains(raw, "#"):
		refused.Value = "one with a fragment"
		return nil, refused
	}
	return u, nil
}

// Handle posts one message. It is a consumer.Handler: nil acks the message.
func (e *Endpoint) Handle(ctx context.Context, d amqp.Delivery) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.cancelled, cancel)()
	if attempt, _ := consumer.AttemptFrom(ctx); attempt.Isolated {
		if err := e.greet(ctx, greetTimeout); err != nil {
			return err
		}
	}
	return e.post(ctx, cancel, d)
}

// Cancel cancels the attempts that run, and lets none begin.
func (e *Endpoint) Cancel() { e.cancel() }

// Close closes the connections. No attempt may run.
func (e *Endpoint) Close() {
	e.cancel()
	e.transport.CloseIdleConnections()
}

// shown is the endpoint as it is named to people: a path may be as secret as a password.
func (e *Endpoint) shown() string { return e.url.Scheme + "://" + e.url.Host }

// lateResponse is how long a response may still be read after the endpoint stopped reading the request.
const lateResponse = time.Second

// readFirst is a connection on which a failed write waits until everything that the endpoint sent is read. An endpoint
// may respond and close the connection before it has read the body. net/http drops the connection at the first failed
// write, even if the response has arrived.
type readFirst struct {
	net.Conn
	over    chan struct{} // no more can be read
	endOnce sync.Once
}

func (c *readFirst) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.end()
	}
	return n, err
}

func (c *readFirst) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil || !isReset(err) {
		return n, err
	}
	select {
	case <-c.over:
	case <-time.After(lateResponse):
	}
	return n, err
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (c *readFirst) Close() error {
	c.end()
	return c.Conn.Close()
}

func (c *readFirst) end() { c.endOnce.Do(func() { close(c.over) }) }
