package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

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

// Command is what is run once for each message.
type Command struct {
	Path   string // found already
	Args   []string
	Stdout io.Writer // of all attempts; safe for use by several goroutines
	Stderr io.Writer // likewise

	mu      sync.Mutex
	running map[int]struct{} // leaders of process groups
	killed  bool
}

// ErrNotStarted is wrapped by the error of Run if the command could not be started, which is no failure of the message.
var ErrNotStarted = errors.New("the command cannot be started")

// Run runs the command with body on its stdin. When ctx is done the command's process group is sent SIGTERM, and killed
// if the command has not ended soon after. What the command started is killed in any case: nothing of it outlives the
// attempt.
func (c *Command) Run(ctx context.Context, env []string, body []byte) error {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...) //nolint:gosec // it is what the user asked to run
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
	err = cmd.Wait()
	c.end(cmd.Process.Pid)
	pipes.close()
	return outcome(cmd.ProcessState, err, context.Cause(ctx), last.String())
}

// start starts cmd with its streams connected.
func (c *Command) start(cmd *exec.Cmd, body []byte, last *tail) (*plumbing, error) {
	p := newPlumbing()
	stdin, err := cmd.StdinPipe()
	if err == nil {
		cmd.Stdout, err = p.copyTo(c.Stdout)
	}
	if err == nil {
		cmd.Stderr, err = p.copyTo(io.MultiWriter(last, c.Stderr))
	}
	if err == nil {
		err = c.begin(cmd)
	}
	p.handedOver()
	if err != nil {
		p.close()
		return nil, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	p.copies.Go(func() { // a command need not read its stdin: Wait closes the pipe
		_, _ = io.Copy(stdin, bytes.NewReader(body))
		_ = stdin.Close()
	})
	return p, nil
}

// begin starts cmd, unless KillAll was called.
func (c *Command) begin(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return context.Canceled
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if c.running == nil {
		c.running = map[int]struct{}{}
	}
	c.running[cmd.Process.Pid] = struct{}{}
	return nil
}

// end kills what is left of a command's group.
func (c *Command) end(leader int) {
	_ = killGroup(leader) // ESRCH, as a rule
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, leader)
}

// KillAll kills every command that runs, and lets none start any more.
func (c *Command) KillAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	for leader := range c.running {
		_ = killGroup(leader)
	}
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
