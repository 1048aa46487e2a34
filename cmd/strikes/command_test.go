//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/proctest"
)

// shellCommand returns a command that runs a script.
func shellCommand(t *testing.T, script string) (c *program, stdout, stderr *output) {
	t.Helper()
	path, err := exec.LookPath("sh")
	need(t, err)
	stdout, stderr = &output{}, &output{}
	return &program{Path: path, Args: []string{"-c", script}, Stdout: stdout, Stderr: stderr, Killed: t.Context()}, stdout,
		stderr
}

func TestCommandOutcome(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 50<<20)
	tests := []struct {
		name, script string
		body         []byte
		want         string // in the error; empty: none
		rejected     bool
		uncounted    bool
		stdout       string
	}{
		{name: "done", script: "cat", body: []byte("hello"), stdout: "hello"},
		{name: "failed", script: "echo no >&2; echo such >&2; exit 3", want: "exit status 3: no\nsuch"},
		{name: "says nothing", script: "exit 1", want: "exit status 1"},
		{name: "rejects", script: "echo bad >&2; exit 65", want: "exit status 65: bad", rejected: true},
		{name: "could not work", script: "echo no database >&2; exit 75", want: "exit status 75: no database",
			uncounted: true},
		{name: "killed", script: "kill -9 $$", want: "signal: killed"},
		{name: "50 MB are read", script: "wc -c | tr -d ' '", body: big, stdout: "52428800\n"},
		{name: "50 MB are not read", script: "exit 0", body: big},
		{name: "not all is read", script: "head -c 1", body: big, stdout: "x"},
		{name: "stdin closed", script: "exec <&-; exit 0", body: big},
		{name: "much on stderr", script: "head -c 1000000 /dev/zero | tr '\\0' e >&2; echo >&2; echo last >&2; exit 1",
			want: "exit status 1: last"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, stdout, _ := shellCommand(t, tt.script)
			err := c.Run(t.Context(), os.Environ(), tt.body)
			if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if got := madeBy(err, consumer.Reject); got != tt.rejected {
				t.Errorf("rejected: %v", got)
			}
			if got := madeBy(err, consumer.NotCounted); got != tt.uncounted {
				t.Errorf("not counted: %v", got)
			}
			if stdout.String() != tt.stdout {
				t.Errorf("printed %.80q, want %q", stdout, tt.stdout)
			}
		})
	}
}

// madeBy reports whether err was made by steer, such as consumer.Reject. The type is not exported.
func madeBy(err error, steer func(error) error) bool {
	return err != nil && reflect.DeepEqual(err, steer(errors.Unwrap(err)))
}

func TestCommandTimeout(t *testing.T) {
	tests := []struct {
		name, script string
		want         string
	}{
		{"ends at SIGTERM", `trap 'echo bye >&2; exit 7' TERM`, "too slow: exit status 7: "},
		{"finishes all the same", `trap 'exit 0' TERM`, ""},
		{"ignores SIGTERM", `trap '' TERM`, "too slow: signal: killed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, stdout, _ := shellCommand(t, tt.script+"; echo ready; while :; do sleep 0.05; done")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			done := make(chan error, 1)
			go func() { done <- c.Run(ctx, os.Environ(), nil) }()
			proctest.Eventually(t, time.Minute, "the signal is trapped", func() bool { return stdout.String() != "" })
			cancel(errors.New("too slow"))
			if err := <-done; (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestCommandTakesItsChildrenAlong starts a process that holds every stream open.
func TestCommandTakesItsChildrenAlong(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	c, _, _ := shellCommand(t, `sleep 600 & echo $! >"$PID_FILE"; exit 0`)
	began := time.Now()
	need(t, c.Run(t.Context(), append(os.Environ(), "PID_FILE="+pidFile), make([]byte, 1<<20)))
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
	pid := readPID(t, pidFile)
	proctest.Eventually(t, time.Minute, "the child is gone", func() bool { return !alive(pid) })
}

// slow takes its time over each write, as a terminal or a pager does.
type slow struct{ *output }

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(3 * lastOutput)
	return s.output.Write(p)
}

func TestCommandOutputIsWhole(t *testing.T) {
	c, stdout, _ := shellCommand(t, `head -c 300000 /dev/zero | tr '\0' x`)
	c.Stdout = slow{stdout}
	if err := c.Run(t.Context(), os.Environ(), nil); err != nil || len(stdout.String()) != 300000 {
		t.Errorf("%d bytes of 300000, %v", len(stdout.String()), err)
	}
	c, _, stderr := shellCommand(t, "yes refused | head -n 3000 >&2") // equal lines are not left out
	if err := c.Run(t.Context(), os.Environ(), nil); err != nil || stderr.String() != strings.Repeat("refused\n", 3000) {
		t.Errorf("%d bytes of 3000 lines, %v", len(stderr.String()), err)
	}
}

// stuck is the output of a reader that has stopped, such as a pager or a log driver.
type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

// TestCommandWithStuckOutput: how a command ended counts, although its output is not read.
func TestCommandWithStuckOutput(t *testing.T) {
	for script, want := range map[string]string{
		"echo no >&2; echo hello": "", "echo no >&2; echo hello; exit 3": "exit status 3: no"} {
		reads := make(stuck)
		defer close(reads)
		c, _, _ := shellCommand(t, script)
		c.Stdout, c.Stderr = reads, reads
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx, os.Environ(), nil) }()
		select {
		case err := <-done:
			if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v, want %q", script, err, want)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it does not return", script)
		}
	}
}

// busy is a pipe on a busy machine: the time of a read that waited is over before it learns that there is something to
// read.
type busy struct{ reads int }

func (b *busy) SetReadDeadline(time.Time) error { return nil }

func (b *busy) Read(to []byte) (int, error) {
	if b.reads++; b.reads == 2 {
		return copy(to, "last words"), nil
	}
	time.Sleep(lastOutput)
	return 0, os.ErrDeadlineExceeded
}

func TestLastOutputIsRead(t *testing.T) {
	p, out := &plumbing{ended: make(chan struct{})}, &output{}
	close(p.ended)
	p.copy(out, &busy{})
	if out.String() != "last words" {
		t.Errorf("%q was copied", out.String())
	}
}

// drip is a pipe into which a process that has left the group prints little at a time, without end.
type drip struct{ reads int }

func (*drip) SetReadDeadline(time.Time) error { return nil }

func (d *drip) Read(to []byte) (int, error) {
	if d.reads++; d.reads > 1000 {
		return 0, io.EOF
	}
	return copy(to, "more"), nil
}

// TestLaterOutputIsLeft: once the pipe was empty, nothing in it is the command's.
func TestLaterOutputIsLeft(t *testing.T) {
	p, from := &plumbing{ended: make(chan struct{})}, &drip{}
	close(p.ended)
	if p.copy(io.Discard, from); from.reads > 2 {
		t.Errorf("read %d times", from.reads)
	}
}

// TestCommandLetsGo starts a process that leaves the group and prints without end.
func TestCommandLetsGo(t *testing.T) {
	setsid, err := exec.LookPath("setsid")
	if err != nil {
		t.Skip("there is no setsid to leave the process group with")
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	c, _, _ := shellCommand(t, setsid+
		` sh -c 'echo $$ >"$PID_FILE.new"; mv "$PID_FILE.new" "$PID_FILE"; while :; do echo more; done' &
		while ! test -e "$PID_FILE"; do sleep 0.05; done`)
	began := time.Now()
	err = c.Run(t.Context(), append(os.Environ(), "PID_FILE="+pidFile), nil)
	_ = syscall.Kill(readPID(t, pidFile), syscall.SIGKILL)
	if took := time.Since(began); err != nil || took > time.Minute {
		t.Errorf("%v after %v", err, took)
	}
}

func TestCommandKilled(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	c, _, _ := shellCommand(t, `echo $$ >"$PID_FILE.new"; mv "$PID_FILE.new" "$PID_FILE"; sleep 600`)
	var kill context.CancelFunc
	c.Killed, kill = context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(t.Context(), append(os.Environ(), "PID_FILE="+pidFile), nil) }()
	proctest.Eventually(t, time.Minute, "the command runs", func() bool { _, err := os.Stat(pidFile); return err == nil })
	kill()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the killed command: %v", err)
	}
	if err := c.Run(t.Context(), nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("one that is started after it: %v", err)
	}
}

func TestCommandCannotBeStarted(t *testing.T) {
	c := &program{Path: filepath.Join(t.TempDir(), "none"), Stdout: &output{}, Stderr: &output{}, Killed: t.Context()}
	if err := c.Run(t.Context(), nil, []byte("x")); !errors.Is(err, errNotStarted) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("session lost")
	cancel(cause)
	if err := c.Run(ctx, nil, nil); !errors.Is(err, cause) || errors.Is(err, errNotStarted) {
		t.Errorf("once its context is done: %v", err)
	}
}

// readPID reads the process id in a file.
func readPID(t testing.TB, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	need(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	need(t, err)
	return pid
}

// alive reports whether a process runs. A zombie does not: its parent, as of all orphans, may be slow to collect it.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

func TestTail(t *testing.T) {
	long := strings.Repeat("x", tailBytes)
	tests := []struct {
		name   string
		writes []string
		want   string
	}{
		{"nothing", nil, ""},
		{"trimmed", []string{"  bad ", "order\n\n"}, "bad order"},
		{"all lines that fit", []string{"one\n", "two\n"}, "one\ntwo"},
		{"cut to whole lines", []string{long, "\nthe", " reason\n"}, "the reason"},
		{"one long line", []string{"a" + long}, long},
		{"one long line, ended", []string{"a" + long + "\n"}, long[1:]},
		{"one long write", []string{long + "\n" + long[:tailBytes-1]}, long[:tailBytes-1]},
		{"no text", []string{"\xff\xfe"}, "\uFFFD"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tail tail
			for _, s := range tt.writes {
				if n, err := io.WriteString(&tail, s); n != len(s) || err != nil {
					t.Fatal(n, err)
				}
			}
			if got := tail.String(); got != tt.want || !utf8.ValidString(got) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
