package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servertest"
)

// strikesOn returns a command line of strikes on the shared servers.
func strikesOn(t *testing.T, queue string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("strikes", args...)
	cmd.Env = append(os.Environ(), "AMQP_URL="+brokerURL(t), "REDIS_URL="+storeURL(t), "STRIKES_PREFIX="+queue,
		"STRIKES_MANAGEMENT_URL=")
	return cmd
}

// newQueue names a queue of a test. The queue, those that declare makes with it, and its records go when the test ends.
func newQueue(t *testing.T) string {
	t.Helper()
	queue := "cli." + uuid.NewString()
	cleanUp(t, queue)
	return queue
}

// declaredQueue makes one.
func declaredQueue(t *testing.T) string {
	t.Helper()
	queue := newQueue(t)
	mustOutput(t, strikesOn(t, queue, "declare", queue))
	return queue
}

// publishLines publishes a message a line.
func publishLines(t *testing.T, queue, lines string, flags ...string) {
	t.Helper()
	cmd := strikesOn(t, queue, append([]string{"publish", queue}, flags...)...)
	cmd.Stdin = strings.NewReader(lines)
	mustOutput(t, cmd)
}

// storeOf opens the records of a queue.
func storeOf(t *testing.T, url, queue string) *counter.Counter {
	t.Helper()
	store, err := counter.Dial(servertest.Patient(t, url), &counter.Options{Prefix: queue})
	need(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// failOnce counts a failure of a message, whose queue there need not be.
func failOnce(t *testing.T, url, queue, id string) {
	t.Helper()
	a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: queue, ID: id}, Token: "a", Consumer: "test"}
	_, err := storeOf(t, url, queue).Fail(t.Context(), a, counter.Failure{Limit: 4, Reason: "boom"})
	need(t, err)
}

// withChannel calls f with a channel to the broker.
func withChannel(t *testing.T, f func(*amqp.Channel) error) {
	t.Helper()
	b, err := connect.NewBroker(brokerURL(t), "test", "--amqp-url")
	need(t, err)
	need(t, b.With(t.Context(), func(conn *amqp.Connection) error { return broker.OnChannel(t.Context(), conn, f) }))
}

// called runs strikes in this process, without a terminal.
func called(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs output
	code = run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs},
		append([]string{"strikes"}, args...))
	return code, out.String(), errs.String()
}

// ended runs a command to its end, and returns all that it printed.
func ended(t *testing.T, cmd *exec.Cmd) (code int, printed string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func mustOutput(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, &stderr)
	}
	return string(out)
}
