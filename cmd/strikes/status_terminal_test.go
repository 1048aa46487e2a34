//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/proctest"
)

// terminal is a pseudo-terminal on which strikes runs.
type terminal struct {
	ours, theirs *os.File
	shows        output
	cmd          *exec.Cmd
	copied       chan struct{}
}

// onTerminal starts strikes on a terminal of a size.
func onTerminal(t *testing.T, size pty.Winsize, cmd *exec.Cmd) *terminal {
	t.Helper()
	ours, theirs, err := pty.Open()
	need(t, err)
	tt := &terminal{ours: ours, theirs: theirs, cmd: cmd, copied: make(chan struct{})}
	need(t, pty.Setsize(ours, &size))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	need(t, cmd.Start())
	go func() {
		defer close(tt.copied)
		_, _ = io.Copy(&tt.shows, ours) // ends with an error once the other end is closed
	}()
	t.Cleanup(func() {
		if t.Failed() && cmd.Process.Signal(syscall.SIGQUIT) == nil { // it prints where it waits
			time.Sleep(2 * time.Second)
		}
		_ = cmd.Process.Kill() // it has ended if the test went well
		_ = theirs.Close()
		<-tt.copied
		_ = ours.Close()
		if t.Failed() {
			t.Logf("the terminal shows %q", tt.shows.String())
		}
	})
	return tt
}

func (tt *terminal) awaits(t *testing.T, text string) {
	t.Helper()
	proctest.Eventually(t, time.Minute, "shown: "+text, func() bool { return strings.Contains(tt.shows.String(), text) })
}

func (tt *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := tt.ours.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// TestLongIDsAreCutOnATerminal, where they would push everything else off the line, and nowhere else.
func TestLongIDsAreCutOnATerminal(t *testing.T) {
	t.Parallel()
	queue, id := newQueue(t), strings.Repeat("order-", 40)
	failOnce(t, storeURL(t), queue, id)
	tt := onTerminal(t, pty.Winsize{Rows: 24, Cols: 80}, strikesOn(t, queue, "counter", "list", queue))
	tt.awaits(t, "\n"+id[:35]+"…  retrying ")
	_ = tt.cmd.Wait()
	for _, more := range [][]string{nil, {"--json"}} {
		cmd := strikesOn(t, queue, append(append([]string{"counter", "list"}, more...), queue)...)
		if out := mustOutput(t, cmd); !strings.Contains(out, id) {
			t.Errorf("%q: the id is not whole:\n%s", more, out)
		}
	}
}

// TestPublishReadsATerminal: it says that it waits for lines from the keyboard.
func TestPublishReadsATerminal(t *testing.T) {
	t.Parallel()
	queue := declaredQueue(t)
	tt := onTerminal(t, pty.Winsize{Rows: 24, Cols: 80}, strikesOn(t, queue, "publish", queue))
	tt.awaits(t, "each line that you type is a message; Ctrl-D ends the input")
	tt.press(t, "an order\n\x04")
	tt.awaits(t, "1 confirmed")
	need(t, tt.cmd.Wait())
}

// TestConfirmAsksOnATerminal: only a yes is one.
func TestConfirmAsksOnATerminal(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{"y\n": "forgotten", "n\n": "nothing is done", "\n": "nothing is done",
		"\x04": "nothing is done"} {
		queue := newQueue(t)
		failOnce(t, storeURL(t), queue, "a")
		tt := onTerminal(t, pty.Winsize{Rows: 24, Cols: 80}, strikesOn(t, queue, "counter", "reset", "--why",
			"why", queue, "a"))
		tt.awaits(t, "Forget the counts of 1 message of queue "+queue+"? [y/N] ")
		tt.press(t, answer)
		tt.awaits(t, want)
		_ = tt.cmd.Wait()
	}
}

// TestQuestionInterrupted: Ctrl-C is an answer.
func TestQuestionInterrupted(t *testing.T) {
	t.Parallel()
	queue := declaredQueue(t)
	publishLines(t, queue+".dlq", "a stray\n")
	tt := onTerminal(t, pty.Winsize{Rows: 24, Cols: 80}, strikesOn(t, queue, "dead", "drop", "--all", "--force",
		"--to", "kept", queue))
	tt.awaits(t, "[y/N] ")
	tt.press(t, "\x03")
	_ = tt.cmd.Wait()
	tt.awaits(t, "\nstrikes: interrupted: nothing is done: context canceled\r\n")
	if code := tt.cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
}

// TestAgreedTo: a change takes as many dead letters as its question named, also if more have come meanwhile.
func TestAgreedTo(t *testing.T) {
	t.Parallel()
	for done, args := range map[string][]string{
		"1 dropped":  {"drop", "--all", "--to", filepath.Join(t.TempDir(), "kept")},
		"1 replayed": {"replay", "--all", "--watch", "0"},
	} {
		queue := declaredQueue(t)
		add := func() {
			publishLines(t, queue+".dlq", `{"body":"a","headers":{"x-death":[{"queue":"`+queue+`","reason":"rejected"}]}}`+"\n",
				"--ndjson")
		}
		add()
		tt := onTerminal(t, pty.Winsize{Rows: 24, Cols: 200}, strikesOn(t, queue, append(append([]string{"dead"}, args...),
			"--force", queue)...))
		tt.awaits(t, " 1 dead letter of queue ")
		add()
		tt.press(t, "y\n")
		tt.awaits(t, done)
		_ = tt.cmd.Wait()
		proctest.Eventually(t, time.Minute, done+", and one dead letter is left", func() bool {
			n, err := readyIn(brokerURL(t), queue+".dlq")
			return n == 1 && err == nil
		})
	}
}
