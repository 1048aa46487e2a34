//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/uuid"
	xterm "golang.org/x/term"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/clitest"
	"github.com/strikesmq/strikes/internal/proctest"
)

// What a screen writes.
const (
	screenOpen  = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	screenClose = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	frameEnd    = "\x1b[J\x1b[?2026l"
	clearRight  = "\x1b[K"
)

// terminal is a pseudo-terminal on which strikes runs.
type terminal struct {
	ours, theirs *os.File
	before       *xterm.State
	shows        clitest.Output
	cmd          *exec.Cmd
	copied       chan struct{}
}

// onTerminal starts strikes on a terminal of a size.
func onTerminal(t *testing.T, size pty.Winsize, cmd *exec.Cmd) *terminal {
	t.Helper()
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	tt := &terminal{ours: ours, theirs: theirs, cmd: cmd, copied: make(chan struct{})}
	if err := pty.Setsize(ours, &size); err != nil {
		t.Fatal(err)
	}
	if tt.before, err = xterm.GetState(int(theirs.Fd())); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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

// givenBack waits for the end, and finds the terminal as it was.
func (tt *terminal) givenBack(t *testing.T) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- tt.cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	after, err := xterm.GetState(int(tt.theirs.Fd()))
	if err != nil || *after != *tt.before {
		t.Errorf("the modes of the line are %+v, were %+v: %v", after, tt.before, err)
	}
	tt.awaits(t, screenClose)
}

// watched declares a queue and watches it on a terminal, without the management API.
func watched(t *testing.T, size pty.Winsize, env ...string) *terminal {
	t.Helper()
	queue := "cli." + uuid.NewString()
	t.Cleanup(func() {
		if err := errors.Join(forget(brokerURL(t), queue), forgetKeys(storeURL(t), queue)); err != nil {
			t.Error(err)
		}
	})
	mustOutput(t, strikesOn(t, queue, "declare", queue))
	cmd := strikesOn(t, queue, "status", "--watch", "--interval", "100ms", queue)
	cmd.Env = append(cmd.Env, append([]string{"AMQP_URL=" + throughProxy(t, brokerURL(t)), "TERM=xterm-256color", "NO_COLOR="}, env...)...)
	tt := onTerminal(t, size, cmd)
	tt.awaits(t, screenOpen)
	tt.awaits(t, frameEnd)
	return tt
}

func TestWatchGivesTheTerminalBack(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *terminal){
		"q":       func(t *testing.T, tt *terminal) { tt.press(t, "xq") },
		"ctrl-C":  func(t *testing.T, tt *terminal) { tt.press(t, "\x03") },
		"SIGTERM": func(t *testing.T, tt *terminal) { _ = tt.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":  func(t *testing.T, tt *terminal) { _ = tt.cmd.Process.Signal(syscall.SIGINT) },
	} {
		t.Run(name, func(t *testing.T) {
			tt := watched(t, pty.Winsize{Rows: 24, Cols: 80})
			tt.awaits(t, "\x1b[31mdepth      0 ready, no consumer\x1b[0m")
			end(t, tt)
			tt.givenBack(t)
		})
	}
}

func TestWatchFitsTheTerminal(t *testing.T) {
	tt := watched(t, pty.Winsize{Rows: 4, Cols: 20}, "NO_COLOR=1")
	tt.awaits(t, "depth      0 ready,…"+clearRight)
	tt.awaits(t, "… 4 lines more") // the notes say what cannot be seen
	if err := pty.Setsize(tt.ours, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	tt.awaits(t, "depth      0 ready, no consumer"+clearRight)
	tt.awaits(t, ".dlq holds 0"+clearRight)
	tt.awaits(t, "note       no rates")
	tt.awaits(t, clearRight+"\x1b[J")
	tt.press(t, "q")
	tt.givenBack(t)
	if strings.Contains(tt.shows.String(), "\x1b[0m") {
		t.Errorf("color, in spite of NO_COLOR: %q", tt.shows.String())
	}
	if strings.Contains(tt.shows.String(), "\x1b[2J") {
		t.Error("the screen is cleared between frames: it flickers")
	}
}

// TestLongIDsAreCutOnATerminal, where they would push everything else off the line, and nowhere else.
func TestLongIDsAreCutOnATerminal(t *testing.T) {
	queue, id := "cli."+uuid.NewString(), strings.Repeat("order-", 40)
	t.Cleanup(func() { _ = forgetKeys(storeURL(t), queue) })
	failOnce(t, queue, id)
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

// TestConfirmAsksOnATerminal: only a yes is one.
func TestConfirmAsksOnATerminal(t *testing.T) {
	for answer, want := range map[string]string{"y\n": "forgotten", "n\n": "nothing is done", "\n": "nothing is done", "\x04": "nothing is done"} {
		queue := "cli." + uuid.NewString()
		t.Cleanup(func() { _ = forgetKeys(storeURL(t), queue) })
		failOnce(t, queue, "a")
		tt := onTerminal(t, pty.Winsize{Rows: 24, Cols: 80}, strikesOn(t, queue, "counter", "reset", "--why", "why", queue, "a"))
		tt.awaits(t, "Forget what is counted of 1 message of queue "+queue+"? [y/N] ")
		tt.press(t, answer)
		tt.awaits(t, want)
		_ = tt.cmd.Wait()
	}
}

// TestQuestionInterrupted: Ctrl-C is an answer.
func TestQuestionInterrupted(t *testing.T) {
	queue := declaredQueue(t)
	publish := strikesOn(t, queue, "publish", queue+".dlq")
	publish.Stdin = strings.NewReader("a stray\n")
	mustOutput(t, publish)
	tt := onTerminal(t, pty.Winsize{Rows: 24, Cols: 80}, strikesOn(t, queue, "dead", "drop", "--all", "--to", "kept", queue))
	tt.awaits(t, "[y/N] ")
	tt.press(t, "\x03")
	done := make(chan struct{})
	go func() { _ = tt.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	tt.awaits(t, "\nstrikes: interrupted: nothing is done: context canceled\r\n")
	if code := tt.cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
}
