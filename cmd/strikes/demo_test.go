//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
)

// demoOn returns a demo on the shared broker with its embedded store.
func demoOn(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("strikes", append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), "AMQP_URL="+brokerURL(t), "REDIS_URL=")
	return cmd
}

func TestDemo(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"--type=quorum", "--type=classic", "--store=postgres", "--store=mysql"} {
		t.Run(flags, func(t *testing.T) {
			cmd := demoOn(t, "--json", flags)
			var story bytes.Buffer
			cmd.Stderr = &story
			out, err := cmd.Output()
			var v verdict
			if jsonErr := json.Unmarshal(out, &v); err != nil || jsonErr != nil || bytes.Count(out, []byte("\n")) != 1 {
				t.Fatalf("%v, %v\n%s\n%s", err, jsonErr, out, &story)
			}
			if !v.OK || v.Orders != 20 || v.Handled != 19 || v.DeadLettered != 1 || v.Seconds > 30 ||
				!strings.HasPrefix(v.Checks[1].Got, "order-07 rejected") {
				t.Errorf("%s", out)
			}
			// a kill may come before the story has the last events of its process
			for _, want := range []string{`retry order-04, attempt |ack order-04, attempt 3 `, `died \(signal: killed\)`,
				`isolate order-12`, `retry order-07, attempt `} {
				if !regexp.MustCompile(want).MatchString(story.String()) {
					t.Errorf("the story lacks %q:\n%s", want, &story)
				}
			}
			if exists(t, v.Queue) || exists(t, v.Queue+".dlq") {
				t.Error("its queues are left")
			}
		})
	}
}

// TestDemoOnStore gives the demo a store, where it must leave nothing.
func TestDemoOnStore(t *testing.T) {
	t.Parallel()
	cmd := demoOn(t, "--json")
	cmd.Env = append(cmd.Env, "REDIS_URL="+storeURL(t))
	var v verdict
	if err := json.Unmarshal([]byte(mustOutput(t, cmd)), &v); err != nil || !v.OK {
		t.Fatalf("%v, %+v", err, v)
	}
	store, err := connect.OpenStore(t.Context(), patientURL(t), v.Queue) // which is its prefix as well
	need(t, err)
	defer store.Close()
	for i := range v.Orders {
		if left, err := store.Admin().Get(t.Context(), "/", v.Queue, fmt.Sprintf("order-%02d", i+1)); len(left) > 0 ||
			err != nil {
			t.Errorf("%v, %v", left, err)
		}
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
			queue := untilHandled(t, stdout)
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

// TestDemoConsole: the console of a private broker has its management API, so that it finds nothing wrong.
func TestDemoConsole(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	cmd := exec.Command("strikes", "demo", "--console")
	cmd.Env = append(os.Environ(), "AMQP_URL=", "REDIS_URL=")
	stdout, err := cmd.StdoutPipe()
	need(t, err)
	need(t, cmd.Start())
	url, queue := "", ""
	for lines := bufio.NewScanner(stdout); url == "" && lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), "; queue "); ok {
			queue, _, _ = strings.Cut(rest, " ")
		}
		if strings.HasPrefix(lines.Text(), "http://") {
			url = lines.Text()
		}
	}
	response, err := http.Get(url + "doctor?queue=" + queue)
	need(t, err)
	page, err := io.ReadAll(response.Body)
	need(t, errors.Join(err, response.Body.Close()))
	if !bytes.Contains(page, []byte("<h2>Queue")) || bytes.Contains(page, []byte("bindings-unknown")) ||
		bytes.Contains(page, []byte("(Check.Management)")) {
		t.Errorf("it does not have the management API:\n%s", page)
	}
	need(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
}

// untilHandled reads a demo's story until the first order is handled, and returns the queue's name.
func untilHandled(t *testing.T, stdout interface{ Read([]byte) (int, error) }) (queue string) {
	t.Helper()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "; queue "); ok {
			queue, _, _ = strings.Cut(rest, " ")
		}
		if strings.Contains(lines.Text(), "  ack ") {
			return queue
		}
	}
	t.Fatalf("it ended: %v", lines.Err())
	return ""
}

// declaration asks the broker for a queue; false: there is none.
func declaration(t *testing.T, queue string) (q amqp.Queue, ok bool) {
	t.Helper()
	b, err := connect.NewBroker(brokerURL(t), "test")
	need(t, err)
	err = b.With(t.Context(), func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		q, err = ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		ok = err == nil
		return nil
	})
	need(t, err)
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
