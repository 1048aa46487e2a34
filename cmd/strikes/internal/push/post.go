package push

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
)

// What is read of a response. Its status decides; the body is read for the reason of a failure, and so that the
// connection can be used again.
const (
	maxReason    = 1 << 10
	maxDrained   = 64 << 10
	drainTimeout = time.Second
)

// post makes one attempt. It calls cancel if the body of the response takes too long.
func (e *Endpoint) post(ctx context.Context, cancel context.CancelFunc, d amqp.Delivery) error {
	var p progress
	traced := httptrace.WithClientTrace(ctx, p.trace())
	request, err := http.NewRequestWithContext(traced, http.MethodPost, e.url.String(), bytes.NewReader(d.Body))
	if err != nil {
		return consumer.NotCounted(errors.New("making the request failed")) // the error quotes the URL
	}
	attempt, _ := consumer.AttemptFrom(ctx)
	request.Header = headers(e.Queue, d, attempt)
	secrets, err := e.authorize(request)
	if err != nil {
		return consumer.NotCounted(err)
	}
	secrets = longestFirst(append(secrets, secretsOf(e.url)...))
	response, err := e.client.Do(request)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) { // its text has the URL
			err = of.Err
		}
		return e.broken(ctx, &p, err, secrets, nameOf(d))
	}
	e.doubts.forget(nameOf(d))
	e.refusal.accepted.Store(true)
	defer response.Body.Close()
	patience := time.AfterFunc(drainTimeout, func() {
		cancel()
		_ = response.Body.Close()
	})
	defer patience.Stop()
	if response.StatusCode == http.StatusSwitchingProtocols { // its body is the connection, which may stay silent
		return reply{status: response.StatusCode}.judge(time.Now())
	}
	return reply{
		status: response.StatusCode, retryAfter: response.Header.Get("Retry-After"), text: drain(response.Body, secrets),
		location: hide(redirect(response.Header.Get("Location")), secrets),
	}.judge(time.Now())
}

// authorize adds what the endpoint knows this consumer by, and returns it: the endpoint may quote it in its response.
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

// broken is what becomes of an attempt without a response.
func (e *Endpoint) broken(ctx context.Context, p *progress, err error, secrets []string, message string) error {
	cause := context.Cause(ctx)
	seen := hide(err.Error(), secrets)
	sent, answered := p.now()
	code, _ := streamCode(err)
	attempt, _ := consumer.AttemptFrom(ctx)
	switch {
	case cause != nil && sent:
		return fmt.Errorf("%w: %s has not responded", cause, e.shown())
	case e.refusal.certain(err):
		return consumer.NotCounted(e.misconfigured(seen))
	case tooLarge(err):
		return fmt.Errorf("%s refuses headers as large as those of this message: %s", e.shown(), seen)
	case !sent, code == refusedStream:
		return consumer.NotCounted(fmt.Errorf("%s is out of reach: %s", e.shown(), seen))
	case e.refusal.possible(err) && e.doubts.more(message):
		return consumer.NotCounted(e.misconfigured(seen))
	case pingLost(err) && e.doubts.more(message):
		return consumer.NotCounted(fmt.Errorf("the connection to %s was lost: %s", e.shown(), seen))
	case answered, invalid(err), attempt.Isolated && refusedConnection(err):
		return fmt.Errorf("%s sent no valid HTTP response: %s", e.shown(), seen)
	}
	return consumer.Crashed(fmt.Errorf("%s ended the connection before its response: %s", e.shown(), seen))
}

func (e *Endpoint) misconfigured(seen string) error {
	return fmt.Errorf("configuration: %s: %s; fix the endpoint's certificate, --http-ca, --http-cert or the URL",
		e.shown(), seen)
}
