//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/proctest"
)

// queueOfOne makes one with a message in it.
func queueOfOne(t *testing.T) string {
	t.Helper()
	queue := declaredQueue(t)
	publishLines(t, queue, "an order\n")
	return queue
}

// started starts cmd and returns its output. A test that fails logs it.
func started(t *testing.T, cmd *exec.Cmd) (stdout, stderr *output) {
	t.Helper()
	stdout, stderr = &output{}, &output{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	need(t, cmd.Start())
	t.Cleanup(func() {
		if _ = cmd.Process.Kill(); t.Failed() {
			t.Logf("%q printed %s\nand on stderr %s", cmd.Args, stdout, stderr)
		}
	})
	return stdout, stderr
}

// interrupt sends signals to a consumer that has a message. Each but the first is sent once the one before it had its
// effect, and cannot be taken for the same.
func interrupt(t *testing.T, cmd *exec.Cmd, stderr *output, signals ...syscall.Signal) {
	t.Helper()
	for i, s := range signals {
		need(t, cmd.Process.Signal(s))
		if i == 0 && s != syscall.SIGKILL {
			proctest.Eventually(t, time.Minute, "it drains", func() bool {
				return strings.Contains(stderr.String(), "draining")
			})
			time.Sleep(cli.SameSignal)
		}
	}
}

func TestPublishInterrupted(t *testing.T) {
	t.Parallel()
	queue := declaredQueue(t)
	cmd := strikesOn(t, queue, "publish", queue)
	stdin, err := cmd.StdinPipe() // stays open: the command waits for more
	need(t, err)
	_, stderr := started(t, cmd)
	for n, line := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(stdin, line); err != nil {
			t.Fatal(err)
		}
		proctest.Eventually(t, time.Minute, "a line is published before the next one comes", func() bool {
			ready, err := readyIn(brokerURL(t), queue)
			return ready == n+1 && err == nil
		})
	}
	need(t, cmd.Process.Signal(syscall.SIGINT))
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || !strings.Contains(stderr.String(),
		"2 confirmed\n") {
		t.Errorf("exit code %d, %v\n%s", code, err, stderr)
	}
	if n, err := readyIn(brokerURL(t), queue); n != 2 || err != nil {
		t.Errorf("%d messages in the queue, %v", n, err)
	}
}

// TestConsumeStops sends signals to a consumer whose command runs until FINISH is there.
func TestConsumeStops(t *testing.T) {
	t.Parallel()
	const finish = `; until test -e "$FINISH"; do sleep 0.05; done; `
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // under nohup, the consumer would ignore it too
	tests := []struct {
		name    string
		script  string
		signals []syscall.Signal
		code    int
		left    int // messages in the queue
		printed string
	}{
		{"the command may finish", `echo begun` + finish + `echo finished`, []syscall.Signal{syscall.SIGTERM}, cli.ExitOK, 0,
			"begun\nfinished\n"},
		{"its terminal is closed", `echo begun` + finish + `echo finished`, []syscall.Signal{syscall.SIGHUP}, cli.ExitOK, 0,
			"begun\nfinished\n"},
		{"a failure while stopping is not counted", `echo begun` + finish + `exit 1`, []syscall.Signal{syscall.SIGINT},
			cli.ExitOK, 1, "begun\n"},
		{"a second signal ends it", `echo begun; sleep 600`, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM},
			cli.ExitInterrupted, 1, "begun\n"},
		{"it is killed, and the command with it", `echo begun; exec sleep 600`, []syscall.Signal{syscall.SIGKILL}, -1, 1,
			"begun\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			queue := queueOfOne(t)

			pidFile, finish := filepath.Join(t.TempDir(), "pid"), filepath.Join(t.TempDir(), "finish")
			cmd := strikesOn(t, queue, "consume", "-v", queue, "--", "sh", "-c", `echo $$ >"$PID_FILE"; `+tt.script)
			cmd.Env = append(cmd.Env, "PID_FILE="+pidFile, "FINISH="+finish)
			stdout, stderr := started(t, cmd)
			proctest.Eventually(t, time.Minute, "the command runs", func() bool { return stdout.String() == "begun\n" })
			interrupt(t, cmd, stderr, tt.signals...)
			need(t, os.WriteFile(finish, nil, 0o600))
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != tt.code || stdout.String() != tt.printed {
				t.Errorf("exit code %d, printed %q:\n%s", code, stdout, stderr)
			}
			proctest.Eventually(t, time.Minute, "the message is where it must be", func() bool {
				n, err := readyIn(brokerURL(t), queue)
				return err == nil && n == tt.left
			})
			if pid := readPID(t, pidFile); tt.code >= 0 || runtime.GOOS == "linux" { // elsewhere nothing ends an orphan
				proctest.Eventually(t, time.Minute, "the command is gone", func() bool { return !alive(pid) })
			}
			list := strikesOn(t, queue, "counter", "list", queue)
			if out, err := list.CombinedOutput(); list.ProcessState.ExitCode() != cli.ExitNothing {
				t.Errorf("it is counted: %v\n%s", err, out)
			}
		})
	}
}

// TestConsumeUnread: once the reader of its output has ended, a consumer stops as at a signal: the attempts that run
// are settled, and no other begins.
func TestConsumeUnread(t *testing.T) {
	t.Parallel()
	queue, finish := declaredQueue(t), filepath.Join(t.TempDir(), "finish")
	publishLines(t, queue, "1\n2\n3\n")
	for _, flags := range [][]string{{}, {"--json"}} {
		cmd := strikesOn(t, queue, append(append([]string{"consume", queue, "--concurrency", "2"}, flags...), "--",
			"sh", "-c", `read -r n; echo "$n"; [ "$n" = 1 ] || until test -e "$FINISH"; do sleep 0.05; done; echo end`)...)
		cmd.Env = append(cmd.Env, "FINISH="+finish)
		stdout, err := cmd.StdoutPipe()
		need(t, err)
		var stderr output
		cmd.Stderr = &stderr
		need(t, stdout.Close())
		need(t, cmd.Start())
		proctest.Eventually(t, time.Minute, "it stops", func() bool {
			return strings.Contains(stderr.String(), "draining") || strings.Contains(stderr.String(), errUnread.Error())
		})
		need(t, os.WriteFile(finish, nil, 0o600))
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != cli.ExitFailed || !strings.Contains(stderr.String(),
			"strikes: "+errUnread.Error()) {
			t.Errorf("%q: exit code %d, %v: %s", flags, code, cmd.ProcessState, &stderr)
		}
	}
	list := strikesOn(t, queue, "counter", "list", queue)
	if out, err := list.CombinedOutput(); list.ProcessState.ExitCode() != cli.ExitNothing {
		t.Errorf("it is counted: %v\n%s", err, out)
	}
}

// TestConsumeEndedAtOnce kills the command of a redelivered message over and over by a second signal, which the store
// may not take for crashes.
func TestConsumeEndedAtOnce(t *testing.T) {
	t.Parallel()
	queue := queueOfOne(t)
	for range 3 {
		cmd := strikesOn(t, queue, "consume", queue, "--", "sh", "-c", "echo begun; sleep 600")
		stdout, stderr := started(t, cmd)
		proctest.Eventually(t, time.Minute, "the command runs", func() bool { return stdout.String() == "begun\n" })
		interrupt(t, cmd, stderr, syscall.SIGTERM, syscall.SIGTERM)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}
	out, _ := strikesOn(t, queue, "counter", "list", "--json", queue).CombinedOutput()
	if strings.Contains(string(out), `"running"`) || strings.Contains(string(out), `"suspect":true`) {
		t.Errorf("after three ends: %s", out)
	}
}

// TestReplayInterrupted interrupts a replay, which says so, and how many messages it replayed. Once all are published,
// it does not tell the reader to run the command again: that would replay the messages that have failed again.
func TestReplayInterrupted(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	withChannel(t, func(ch *amqp.Channel) error {
		return deadLettering(ch, queue, queue+".dlq", amqp.Table{"x-queue-type": "classic"})
	})
	publishLines(t, queue, strings.Repeat("an order\n", 50))
	mustOutput(t, strikesOn(t, queue, "consume", queue, "--exit-when-idle", "500ms", "--max-retries", "0", "--concurrency",
		"8", "--", "false"))
	cmd := strikesOn(t, queue, "dead", "replay", queue, "--all", "--yes", "--rate", "3", "--json")
	stdout, stderr := started(t, cmd)
	proctest.Eventually(t, time.Minute, "some are replayed", func() bool {
		return strings.Count(stdout.String(), `"replayed":true`) > 2
	})
	need(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	said := strings.TrimSpace(stderr.String())
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || !strings.Contains(said, " replayed, ") ||
		!strings.HasSuffix(said, "\nstrikes: interrupted; to go on, run the same command") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if log := mustOutput(t, strikesOn(t, queue, "audit", queue)); !strings.Contains(log, "  interrupted  ") {
		t.Error(log)
	}

	cmd = strikesOn(t, queue, "dead", "replay", queue, "--all", "--yes", "--watch", "1m", "--json")
	stdout, stderr = started(t, cmd)
	proctest.Eventually(t, time.Minute, "all are replayed", func() bool {
		var left amqp.Queue
		withChannel(t, func(ch *amqp.Channel) (err error) { left, err = broker.Passive(ch, queue+".dlq"); return err })
		return strings.Contains(stdout.String(), `"replayed":true`) && left.Messages+left.Consumers == 0
	})
	need(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	said = stderr.String()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || !strings.Contains(said,
		"strikes: interrupted: all were published, ") || strings.Contains(said, "to go on") {
		t.Errorf("exit code %d\n%s", code, said)
	}
}
