package push

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/broker"
)

// The bounds for reading a response. Its status decides. The body is read for the reason of a failure, and so that the
// connection can be used again.
const (
	maxReason    = 1 << 10
	maxDrained   = 64 << 10
	drainTimeout = time.Second
)

// greetTimeout bounds the HEAD of greet: before an isolated attempt no other message is handled meanwhile.
const greetTimeout = 10 * time.Second

// post makes one attempt. It calls cancel if the body of the response takes too long.
func (e *Endpoint) post(ctx context.Context, cancel context.CancelFunc, d amqp.Delivery) error {
	attempt, _ := consumer.AttemptFrom(ctx)
	post := func(on *http.Transport) (*http.Response, []string, error) {
		return e.send(ctx, on, http.MethodPost, d.Body, headers(e.Queue, d, attempt))
	}
	on := e.transport
	if attempt.Isolated { // a server may close an idle connection just when it is used, which looks like a crash
		on = e.fresh
	}
	response, secrets, err := post(on)
	if errors.Is(err, errIdle) || errors.Is(err, errReused) && d.MessageId == "" { // without an id it cannot be isolated
		response, secrets, err = post(e.fresh)
	}
	// Other messages of an ended connection are isolated, after a HEAD. One without an id would be dead-lettered.
	if errors.Is(err, errInvalid) || errors.Is(err, errEnded) && d.MessageId == "" {
		if greeting := e.greet(ctx, greetTimeout); errors.Is(greeting, errConfiguration) {
			err = greeting
		}
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	patience := time.AfterFunc(drainTimeout, func() {
		cancel()
		_ = response.Body.Close()
	})
	defer patience.Stop()
	if response.StatusCode == http.StatusSwitchingProtocols { // its body is the connection, which may stay silent
		return reply{status: response.StatusCode}.judge(time.Now())
	}
	now, err := http.ParseTime(response.Header.Get("Date")) // by the clock that its Retry-After goes by
	if err != nil {
		now = time.Now()
	}
	text := drain(response.Body, secrets)
	if coding := response.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		text = "(its body is encoded)"
	}
	return reply{
		status: response.StatusCode, retryAfter: response.Header.Get("Retry-After"), text: text,
		location: hide(redirect(response.Header.Get("Location")), secrets),
	}.judge(now)
}

// greet sends HEAD to an endpoint that has not responded yet, before a failure is blamed on a message. Its error says
// that nothing is to be counted: the server may speak another protocol, or refuse the client's certificate. With
// TLS 1.3 a server refuses it after the request was sent, and may reset the connection before its reason is read, as in
// a crash. If HEAD has no response within that time, greet returns nil: the endpoint may respond to POST.
func (e *Endpoint) greet(ctx context.Context, within time.Duration) error {
	if e.heard.Load() {
		return nil
	}
	greeting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	response, _, err := e.send(greeting, e.transport, http.MethodHead, nil, http.Header{"User-Agent": {"strikes"}})
	if errors.Is(greeting.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// Kinds of errors of a request without a response.
var (
	errConfiguration = errors.New("configuration")
	errInvalid       = errors.New("sent no valid HTTP response")
	errEnded         = errors.New("ended the connection before its response")
	// the endpoint may have closed it as idle, so its handler has perhaps not seen the message
	errReused = errors.New("a connection of earlier requests")
	errIdle   = errors.New("closed an idle connection as it was used: HTTP 408")
)

// send sends a request, and returns the response, and the secrets that it may quote, the longest first. Without a
// response the error is the handler's.
func (e *Endpoint) send(ctx context.Context, on *http.Transport, method string, body []byte,
	h http.Header) (response *http.Response, secrets []string, err error) {
	var p progress
	traced := httptrace.WithClientTrace(ctx, p.trace())
	request, err := http.NewRequestWithContext(traced, method, e.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, consumer.NotCounted(errors.New("making the request failed")) // the error quotes the URL
	}
	request.Header = h
	if secrets, err = e.authorize(request); err != nil {
		return nil, nil, consumer.NotCounted(err)
	}
	secrets = longestFirst(append(secrets, secretsOf(e.url)...))
	response, err = on.RoundTrip(request) // http.Client would lose the status if it cannot parse the Location
	if err != nil {
		if of := (tls.RecordHeaderError{}); errors.As(err, &of) && string(of.RecordHeader[:]) == "HTTP/" {
			err = http.ErrSchemeMismatch
		}
		return nil, nil, e.broken(ctx, &p, err, secrets, method)
	}
	e.heard.Store(true)
	// RFC 9110 15.5.9: the connection was idle for too long. A program that uses 408 for itself gives it again.
	if response.StatusCode == http.StatusRequestTimeout && response.Close && p.reused.Load() {
		_ = response.Body.Close()
		return nil, nil, fmt.Errorf("%s %w", e.shown(), errIdle)
	}
	return response, secrets, nil
}

// progress is how far an attempt came, on its last connection.
type progress struct {
	sent     atomic.Bool // the headers, and maybe more
	reused   atomic.Bool // earlier requests used the connection, so the first byte may belong to the previous response
	answered atomic.Bool // the first byte of a response came, which was no 1xx
}

// trace follows a request. GetConn is also called where net/http tries again, because nothing was sent.
func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			p.sent.Store(false)
			p.answered.Store(false)
		},
		GotConn:              func(c httptrace.GotConnInfo) { p.reused.Store(c.Reused) },
		WroteHeaders:         func() { p.sent.Store(true) },
		GotFirstResponseByte: func() { p.answered.Store(true) },
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			p.answered.Store(false)
			return nil
		},
	}
}

// authorize adds the token or the password of this consumer to a request. It returns them, because the endpoint may
// quote them in its response.
func (e *Endpoint) authorize(r *http.Request) (secrets []string, err error) {
	switch {
	case e.TokenFile != "":
		token, err := e.token()
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		return []string{token}, nil
	case e.url.User != nil:
		password, _ := e.url.User.Password()
		basic := base64.StdEncoding.EncodeToString([]byte(e.url.User.Username() + ":" + password))
		r.URL.User = nil
		r.Header.Set("Authorization", "Basic "+basic)
		return []string{basic, password}, nil
	}
	return nil, nil
}

func (e *Endpoint) broken(ctx context.Context, p *progress, err error, secrets []string, method string) error {
	cause := context.Cause(ctx)
	seen := hide(err.Error(), secrets)
	sent, answered := p.sent.Load(), p.answered.Load()
	switch {
	case misconfigured(err):
		e.heard.Store(false)
		return consumer.NotCounted(fmt.Errorf("%w: %s: %s; fix the endpoint's certificate or the URL, or give a file of "+
			"trusted authorities with the environment variable SSL_CERT_FILE", errConfiguration, e.shown(), seen))
	case !sent:
		return consumer.NotCounted(fmt.Errorf("%s is out of reach: %s", e.shown(), seen))
	case method == http.MethodHead:
		return consumer.NotCounted(fmt.Errorf("%w: %s does not answer HEAD as HTTP: %s; fix the URL, or let the endpoint "+
			"answer HEAD and ask for no client certificate", errConfiguration, e.shown(), seen))
	case cause != nil:
		return fmt.Errorf("%w: %s has not responded", cause, e.shown())
	case answered && p.reused.Load():
		return consumer.Crashed(fmt.Errorf("%s sent no valid HTTP response on %w: %s", e.shown(), errReused, seen))
	case answered:
		return fmt.Errorf("%s %w: %s", e.shown(), errInvalid, seen)
	case p.reused.Load():
		return consumer.Crashed(fmt.Errorf("%s ended %w before its response: %s", e.shown(), errReused, seen))
	}
	return consumer.Crashed(fmt.Errorf("%s %w: %s", e.shown(), errEnded, seen))
}

// headers are those of the request for a message. A name of AMQP may hold any bytes, so these are percent-encoded.
func headers(queue string, d amqp.Delivery, a consumer.Attempt) http.Header {
	h := http.Header{}
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	set("User-Agent", "strikes")
	set("Accept-Encoding", "identity")
	set("Content-Type", safe(d.ContentType))
	set("Content-Encoding", safe(d.ContentEncoding))
	set("Strikes-Message-Id", encode(d.MessageId))
	set("Strikes-Queue", encode(queue))
	set("Strikes-Exchange", encode(d.Exchange))
	set("Strikes-Routing-Key", encode(d.RoutingKey))
	set("Strikes-Generation", encode(broker.ReadHeaders(d.Headers, queue, d.MessageId, d.Body).Generation()))
	set("Strikes-Attempt", strconv.Itoa(a.Number))
	set("Strikes-Limit", strconv.Itoa(a.Last))
	set("Strikes-Token", a.Token)
	set("Strikes-Fence", strconv.FormatInt(a.Fence, 10))
	set("Strikes-Redelivered", strconv.FormatBool(d.Redelivered))
	for _, name := range []string{"traceparent", "tracestate"} {
		if value := broker.HeaderText(d.Headers[name]); len(value) <= maxTrace {
			set(name, safe(value))
		}
	}
	return h
}

// maxTrace is the length of a tracestate that every system passes on, in bytes:
// https://www.w3.org/TR/trace-context/#tracestate-limits. A longer one could make the headers larger than the endpoint
// accepts.
const maxTrace = 512

// safe returns a value that can be a header's, else nothing.
func safe(value string) string {
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return value
}

// encode percent-encodes all but the printable characters of ASCII, and also spaces and % itself, so that decoding
// always gives the value.
func encode(value string) string {
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
