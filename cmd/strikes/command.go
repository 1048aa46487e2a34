package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/consumer"
)

// afterTerm is how long a command has to end by itself after SIGTERM. The consumer leaves a handler behind that has not
// returned two seconds after its context was cancelled.
const afterTerm = 1500 * time.Millisecond

// The exit codes of sysexits.h that tell how a command failed.
const (
	exitReject     = 65 // EX_DATAERR: its message is dead-lettered now
	exitNotCounted = 75 // EX_TEMPFAIL: it could not work, and the message is not the reason
)

// program is the command that runs once for each message.
type program struct {
	Path   string // found already
	Args   []string
	Stdout io.Writer // of all attempts; safe for use by several goroutines
	Stderr io.Writer // likewise

	// When Killed is done, all commands are killed, and no other starts.
	Killed context.Context //nolint:containedctx // the lifetime of all attempts
}

// errUnread stops a consumer whose output is lost: the reader of its pipe has ended.
var errUnread = errors.New("stopped: nothing reads the output any more")

// heard returns a writer to a pipe or file that calls unread once the pipe has no reader, and a terminal as it is.
func heard(to io.Writer, unread func()) io.Writer {
	if term.IsTerminal(to) {
		return to
	}
	return pipeWriter{to, unread}
}

type pipeWriter struct {
	io.Writer
	unread func()
}

func (w pipeWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		w.unread()
	}
	return n, err
}

// errNotStarted is wrapped by the error of Run if the command could not be started, which is no failure of the message.
var errNotStarted = errors.New("the command cannot be started")

// Run runs the command with body on its stdin. When ctx is done the command's process group is sent SIGTERM, and killed
// if the command has not ended soon after. Processes that the command started are killed in any case, so none outlives
// the attempt.
func (c *program) Run(ctx context.Context, env []string, body []byte) error {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Env, cmd.WaitDelay = env, afterTerm
	cmd.Cancel = func() error { return terminateGroup(cmd.Process.Pid) }
	ownGroup(cmd)
	var last tail
	pipes, err := c.start(cmd, body, &last)
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	leader := cmd.Process.Pid
	killed := make(chan struct{})
	stop := context.AfterFunc(c.Killed, func() { _ = killGroup(leader); close(killed) })
	err = cmd.Wait()
	if !stop() {
		<-killed // before another group may have this id
	}
	cause := context.Cause(ctx) // before the output is waited for
	_ = killGroup(leader)       // ESRCH, as a rule
	reapGroup(leader)
	pipes.close(ctx)
	return outcome(cmd.ProcessState, err, cause, last.String())
}

func (c *program) start(cmd *exec.Cmd, body []byte, last *tail) (*plumbing, error) {
	p := &plumbing{ended: make(chan struct{})}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		cmd.Stdout, err = p.copyTo(c.Stdout)
	}
	if err == nil {
		cmd.Stderr, err = p.copyTo(io.MultiWriter(last, c.Stderr))
	}
	if err == nil {
		err = c.Killed.Err()
	}
	if err == nil {
		err = cmd.Start()
	}
	for _, f := range p.theirs { // the command has them by now
		_ = f.Close()
	}
	if err != nil {
		p.close(context.Background())
		return nil, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	p.copies.Go(func() { // a command need not read its stdin: Wait closes the pipe
		_, _ = io.Copy(stdin, bytes.NewReader(body))
		_ = stdin.Close()
	})
	return p, nil
}

// outcome is the handler's error for a command that ended so. Its own exit code counts, even if it was cancelled.
func outcome(state *os.ProcessState, err, cause error, last string) error {
	if state != nil && state.Success() {
		return nil
	}
	var exit *exec.ExitError
	if state != nil && !errors.As(err, &exit) { // cancelled, or its pipes were held open: the status says more
		err = &exec.ExitError{ProcessState: state}
	}
	if cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if last != "" {
		err = fmt.Errorf("%w: %s", err, last)
	}
	switch {
	case state != nil && state.ExitCode() == exitReject:
		return consumer.Reject(err)
	case state != nil && state.ExitCode() == exitNotCounted && cause == nil:
		return consumer.NotCounted(err)
	}
	return err
}

// A command has ended with all of its group, and its output is in the pipes. A process that has left the group and
// holds them open is read from for a short time only: no pipe holds more than lastBytes.
const (
	lastOutput = 100 * time.Millisecond
	lastBytes  = 1 << 20
)

// plumbing copies the output of a command. The pipes are ours, not exec.Cmd's, whose Wait would wait for every process
// that holds their other ends.
type plumbing struct {
	copies sync.WaitGroup
	ended  chan struct{} // the command has
	ours   []*os.File
	theirs []*os.File
}

// copyTo returns the file that the command is to print to.
func (p *plumbing) copyTo(w io.Writer) (*os.File, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.ours, p.theirs = append(p.ours, ours), append(p.theirs, theirs)
	p.copies.Go(func() { p.copy(w, ours) })
	return theirs, nil
}

// pipe is an *os.File, as far as copy needs it.
type pipe interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

// copy reads to the end, or, once the command has ended, until the pipe is empty: then a read is short, or waits. The
// time that a slow w takes does not count.
func (p *plumbing) copy(w io.Writer, from pipe) {
	buffer := make([]byte, 32<<10)
	lastRead := false // it began after the command had ended, so it meets all output that came before
	for last := 0; last < lastBytes; {
		began := time.Now()
		n, err := from.Read(buffer)
		empty := n < len(buffer) && (n > 0 || time.Since(began) >= lastOutput/2)
		_, _ = w.Write(buffer[:n]) // if it fails, as on a full disk, reading on keeps the command from blocking
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) || lastRead && empty {
			return
		}
		select {
		case <-p.ended:
			last, lastRead = last+n, true
			_ = from.SetReadDeadline(time.Now().Add(lastOutput))
		default:
		}
	}
}

// close waits for the copies, until shortly after ctx ends at most. The reader of the output may have stopped, and the
// result of the command counts without it. The command must have ended.
func (p *plumbing) close(ctx context.Context) {
	close(p.ended)
	for _, f := range p.ours {
		_ = f.SetReadDeadline(time.Now().Add(lastOutput))
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		p.copies.Wait()
		for _, f := range p.ours {
			_ = f.Close()
		}
	}()
	select {
	case <-copied:
		return
	case <-ctx.Done():
	}
	select {
	case <-copied:
	case <-time.After(2 * lastOutput):
	}
}

// tailBytes leaves room for the exit status in a record's reason (counter.MaxReason).
const tailBytes = 900

type tail struct {
	mu   sync.Mutex
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if surplus := len(t.kept) - tailBytes; surplus > 0 {
		t.kept = append(t.kept[:0], t.kept[surplus:]...)
		t.cut = true
	}
	return len(p), nil
}

// String is valid UTF-8; it begins with a whole line if there is more than one.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := string(t.kept)
	if t.cut {
		if _, rest, ok := strings.Cut(s, "\n"); ok && strings.TrimSpace(rest) != "" {
			s = rest
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
}
