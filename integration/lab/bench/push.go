package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/lab/ways"
)

// posting measures a loop that posts each message to an endpoint in this process. The CPU time of the client is not
// known: the endpoint is part of this process, and strikes is another one.
func posting(l func(ctx context.Context, t *trial, conn *amqp.Connection, url string) error) measurement {
	measure := consuming(func(ctx context.Context, t *trial, conn *amqp.Connection) error {
		server := httptest.NewServer(t.endpoint())
		defer server.Close()
		return l(ctx, t, conn, server.URL)
	})
	return func(ctx context.Context, t *trial) (sample, error) {
		s, err := measure(ctx, t)
		s.cpu = cpu{}
		return s, err
	}
}

// endpoint handles the messages that are posted to it. With the last attempt at a message, that is settled.
func (t *trial) endpoint() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		d := amqp.Delivery{Body: body}
		err = t.tally.handle(&d)
		if err == nil || t.tally.last(&d) {
			defer t.tally.settle()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// pushStrikes runs strikes consume --http.
func pushStrikes(ctx context.Context, t *trial, _ *amqp.Connection, url string) error {
	binary, err := t.binary.Strikes(ctx)
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	args := []string{"consume", t.spec.Queue, "--http", url, "--max-retries", strconv.Itoa(retries), "--backoff", "0",
		"--concurrency", strconv.Itoa(t.workers), "--prefetch", strconv.Itoa(prefetch)}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), "AMQP_URL="+t.broker.URL, "REDIS_URL="+t.store.URL)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-t.tally.done: // a failure while it stops is not counted
		err = t.await(ctx, t.spec.DeadLetterQueue, t.tally.dead())
		err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM), <-ended)
	case err = <-ended:
		err = errors.Join(errEnded, err, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("strikes consume --http: %w\n%s", err, &stderr)
	}
	return nil
}

// pushBare posts and acks. A message that fails is posted again immediately, and dead-lettered after its last attempt.
func pushBare(ctx context.Context, t *trial, _ *amqp.Connection, url string) error {
	transport := &http.Transport{MaxIdleConnsPerHost: t.workers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	deadLetter := func(_ context.Context, _ *ways.Session, d *amqp.Delivery) error { return d.Nack(false, false) }
	handle := func(d *amqp.Delivery) error {
		err := errFailing
		for n := 0; err != nil && n <= retries; n++ {
			err = post(ctx, client, url, d.Body)
		}
		return err
	}
	return t.consume(ctx, &ways.Way{Work: ways.ByHand(deadLetter)}, handle, nil)
}

func post(ctx context.Context, client *http.Client, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		err = errFailing
	}
	_, broken := io.Copy(io.Discard, response.Body)
	return errors.Join(err, broken, response.Body.Close())
}
