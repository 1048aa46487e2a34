//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
)

// demoOn returns a demo on the shared broker with a store of its own.
func demoOn(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("strikes", append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), "AMQP_URL="+brokerURL(t))
	return cmd
}

// TestDemo plays the demo on each kind of store.
func TestDemo(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--store=postgres", "--store=mysql", ""} {
		t.Run(flag, func(t *testing.T) {
			out, err := demoOn(t, strings.Fields(flag)...).CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("20 orders: 19 handled, 1 dead-lettered, none lost. (")) {
				t.Fatalf("%v\n%s", err, out)
			}
			// a kill may come before the story has the last events of its process
			for _, want := range []string{`retry order-04, attempt |ack order-04, attempt 3 `, `died \(signal: killed\)`,
				`isolate order-12`, `retry order-07, attempt `} {
				if !regexp.MustCompile(want).Match(out) {
					t.Errorf("the story lacks %q:\n%s", want, out)
				}
			}
			queue := untilLine(t, bytes.NewReader(out), "; queue ")
			if exists(t, queue) || exists(t, queue+".dlq") {
				t.Error("its queues are left")
			}
		})
	}
}

// TestDemoEnds ends a demo in the middle. Its consumers must end with it; and after anything but SIGKILL its queues
// must be gone.
func TestDemoEnds(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd := demoOn(t)
			stdout, err := cmd.StdoutPipe()
			need(t, err)
			need(t, cmd.Start())
			queue := untilLine(t, stdout, "  ack ")
			servertest.DeleteLater(t, queue)
			if n := consumers(t, queue); n == 0 {
				t.Error("it has no consumers to begin with")
			}
			need(t, cmd.Process.Signal(sig))
			_ = cmd.Wait()
			proctest.Eventually(t, time.Minute, "the consumers are gone", func() bool { return consumers(t, queue) == 0 })
			if sig == syscall.SIGKILL {
				return
			}
			if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || exists(t, queue) {
				t.Errorf("exit code %d, queue left: %v", code, exists(t, queue))
			}
		})
	}
}

// untilLine reads a demo's story until a line with a text, and returns the queue's name.
func untilLine(t *testing.T, stdout io.Reader, text string) (queue string) {
	t.Helper()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "; queue "); ok {
			queue, _, _ = strings.Cut(rest, " ")
		}
		if strings.Contains(lines.Text(), text) {
			return queue
		}
	}
	t.Fatalf("it ended: %v", lines.Err())
	return ""
}

// declaration asks the broker for a queue; false: there is none.
func declaration(t *testing.T, queue string) (q amqp.Queue, ok bool) {
	t.Helper()
	withChannel(t, func(ch *amqp.Channel) (err error) {
		q, err = ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		ok = err == nil
		return nil
	})
	return q, ok
}

func exists(t *testing.T, queue string) bool {
	t.Helper()
	_, ok := declaration(t, queue)
	return ok
}

func consumers(t *testing.T, queue string) int {
	t.Helper()
	q, _ := declaration(t, queue)
	return q.Consumers
}
