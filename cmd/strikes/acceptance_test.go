package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/ops"
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

// TestThousandOrders publishes a thousand lines and runs a shell for each; every twentieth always fails. It must be run
// four times and be dead-lettered, with its reason and its count in the store; the others once.
func TestThousandOrders(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for _, kind := range []string{"quorum", "classic"} {
		t.Run(kind, func(t *testing.T) {
			queue := newQueue(t)
			mustOutput(t, strikesOn(t, queue, "declare", "--type", kind, queue))
			publishLines(t, queue, orderLines(1000))

			ledger := filepath.Join(t.TempDir(), "ledger")
			consume := strikesOn(t, queue, "consume", queue, "--concurrency", "4", "--prefetch", "50", "--backoff", "10ms..50ms",
				"--exit-when-idle", "1s", "--", "sh", "-c",
				`read -r what n; echo "$n $STRIKES_ATTEMPT/$STRIKES_LAST" >>"$LEDGER"; test $((n % 20)) -ne 0 && exit
				echo "order $n is bad" >&2; exit 1`)
			consume.Env = append(consume.Env, "LEDGER="+ledger)
			mustOutput(t, consume)

			checkRuns(t, ledger)
			checkDeadLetters(t, queue)
			checkCounters(t, mustOutput(t, strikesOn(t, queue, "counter", "list", "--json", queue)))
		})
	}
}

func orderLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "order %d\n", i+1)
	}
	return b.String()
}

// checkRuns reads the notes of the commands themselves: which attempt of how many they were.
func checkRuns(t *testing.T, ledger string) {
	t.Helper()
	f, err := os.Open(ledger)
	need(t, err)
	defer f.Close()
	runs := map[int][]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var n int
		var attempt string
		if _, err := fmt.Sscan(lines.Text(), &n, &attempt); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		runs[n] = append(runs[n], attempt)
	}
	for n := 1; n <= 1000; n++ {
		want := "[1/4]"
		if n%20 == 0 {
			want = "[1/4 2/4 3/4 4/4]"
		}
		if got := fmt.Sprint(runs[n]); got != want {
			t.Errorf("order %d: runs %s, want %s", n, got, want)
		}
	}
}

// checkDeadLetters asks the broker.
func checkDeadLetters(t *testing.T, queue string) {
	t.Helper()
	withChannel(t, func(ch *amqp.Channel) error { // its end returns the dead letters
		ids := map[string]bool{}
		proctest.Eventually(t, time.Minute, "50 dead letters", func() bool {
			q, err := broker.Passive(ch, queue+".dlq")
			return q.Messages == 50 || err != nil
		})
		for {
			d, ok, err := ch.Get(queue+".dlq", false)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			death, _ := broker.NewestDeath(d.Headers, queue)
			if ids[d.MessageId] || death.Reason != "rejected" {
				t.Errorf("dead letter %s: a second one, or %+v", d.MessageId, death)
			}
			ids[d.MessageId] = true
		}
		left, err := broker.Passive(ch, queue)
		if len(ids) != 50 || left.Messages != 0 {
			t.Errorf("%d dead letters, want 50; %d messages are left in the queue", len(ids), left.Messages)
		}
		return err
	})
}

// checkCounters reads the output of counter list.
func checkCounters(t *testing.T, printed string) {
	t.Helper()
	reasons := map[string]bool{}
	for line := range strings.Lines(printed) {
		var r ops.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if r.State != ops.DeadLettered || r.Failures != 4 || r.Crashes != 0 {
			t.Errorf("%s", line)
		}
		reasons[r.LastError] = true
	}
	for n := 20; n <= 1000; n += 20 {
		if reason := fmt.Sprintf("exit status 1: order %d is bad", n); !reasons[reason] {
			t.Errorf("no counter with the reason %q", reason)
		}
	}
	if len(reasons) != 50 {
		t.Errorf("%d reasons", len(reasons))
	}
}
