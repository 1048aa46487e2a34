package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// logTail is how much of a server's log an error carries.
const logTail = 4 << 10

// A child is one running process of a private server, in a process group of
// its own. It is over once done is closed.
type child struct {
	name  string
	group int
	log   string
	done  chan struct{}
	err   error // how it ended; valid once done is closed

	succeeded bool // it ended with status 0; valid once done is closed
}

// startChild runs args with exactly env, its output appended to NAME.log in dir.
func startChild(dir *workdir, name string, env []string, args ...string) (*child, error) {
	logPath := dir.join(name + ".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir.path, env
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd)
	runAs(cmd, dir.user)
	if err := cmd.Start(); err != nil {
		if dir.user != 0 && errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w: the user nobody, who is to run it, does not reach %s; chmod o+x the directories above it",
				err, dir.path)
		}
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	c := &child{name: name, group: cmd.Process.Pid, log: logPath, done: make(chan struct{})}
	watched := dir.watch(c.group)
	go func() {
		defer close(c.done)
		if c.err = cmd.Wait(); c.err == nil {
			c.succeeded, c.err = true, errors.New("exit status 0")
		}
		// Only a guard that died refuses the news, and then watched says so.
		_ = dir.unwatch(c.group)
	}()
	if watched != nil {
		return nil, errors.Join(fmt.Errorf("the guard process of %s is gone: %w", name, watched), c.kill())
	}
	return c, nil
}

func (c *child) running() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// groupID is the process group of a child that was started; else zero.
func (c *child) groupID() int {
	if c == nil {
		return 0
	}
	return c.group
}

func (c *child) signal(sig syscall.Signal) error {
	if !c.running() {
		return fmt.Errorf("%s is not running", c.nameOr("the server"))
	}
	if err := signalGroup(c.group, sig); err != nil {
		return fmt.Errorf("signalling %s: %w", c.name, err)
	}
	return nil
}

// kill ends the child without warning and waits for its end. A child that is
// over already is no error.
func (c *child) kill() error {
	if !c.running() {
		return nil
	}
	if err := signalGroup(c.group, sigKill); err != nil && c.running() {
		return fmt.Errorf("killing %s: %w", c.name, err)
	}
	<-c.done
	return nil
}

// terminate asks the child to end and waits until it has, or ctx is done.
func (c *child) terminate(ctx context.Context) error {
	if !c.running() {
		return nil
	}
	if err := c.signal(sigTerm); err != nil && c.running() {
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w", c.name, ctx.Err())
	}
}

// tail is the end of the child's log, for errors.
func (c *child) tail() string {
	b, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return tail(b)
}

func tail(log []byte) string {
	return string(bytes.TrimSpace(log[max(0, len(log)-logTail):]))
}

func (c *child) nameOr(other string) string {
	if c == nil {
		return other
	}
	return c.name
}
