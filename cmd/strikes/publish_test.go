package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
)

// TestRefusedMessageIsNamed: the broker ends the channel over the second of three messages, which are sent together.
func TestRefusedMessageIsNamed(t *testing.T) {
	failed := func(err error) error { return &publisher.Error{Err: err, Code: amqp.PreconditionFailed} }
	lost, p := failed(publisher.ErrConnectionLost), publish{progress: term.Progress(io.Discard)}
	entries := []entry{{source: "f", line: 1}, {source: "f", line: 2}, {source: "f", line: 3}}
	err := p.count(t.Context(), entries, make([]publisher.Message, 3), &publisher.BatchError{Errs: []error{lost,
		failed(publisher.ErrRefused), lost}})
	if code := cli.ExitCode(err); !strings.HasPrefix(err.Error(), "f:2: publisher: refused") || code != cli.ExitMisuse {
		t.Errorf("exit code %d: %v", code, err)
	}
}

// TestPublishDuringAnAlarm ends soon, and says why: a broker that is short of memory reads nothing from who publishes.
func TestPublishDuringAnAlarm(t *testing.T) {
	t.Parallel()
	broker := servertest.Broker(t, servers.RabbitMQOptions{Config: "vm_memory_high_watermark.absolute = 1MB\n"})
	env := []string{"AMQP_URL=" + broker.URL}
	mustOutput(t, with(strikesOn(t, "q", "declare", "q"), env...))
	for _, interrupt := range []bool{false, true} {
		timeout := "5s" // the broker says within it that it blocks
		if interrupt {
			timeout = "1m"
		}
		cmd := with(strikesOn(t, "q", "publish", "--timeout", timeout, "q"), env...)
		cmd.Stdin = strings.NewReader("an order\n")
		stdout, stderr := started(t, cmd)
		proctest.Eventually(t, time.Minute, "it says that the broker blocks", func() bool {
			return strings.Contains(stderr.String(), "blocked by the broker")
		})
		began, want := time.Now(), cli.ExitUnreachable
		if interrupt {
			want = cli.ExitInterrupted
			need(t, cmd.Process.Signal(os.Interrupt))
		}
		_ = cmd.Wait()
		if took, code := time.Since(began), cmd.ProcessState.ExitCode(); took > 20*time.Second || code != want ||
			!strings.Contains(stderr.String(), "the broker blocks publishers") {
			t.Errorf("interrupted %v: exit code %d after %v\n%s%s", interrupt, code, took, stdout, stderr)
		}
	}
}
