package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/strikesmq/strikes/internal/poll"
)

// logTail is how much of a server's log an error carries.
const logTail = 4 << 10

// A child is one running process of a private server, in a process group of its own. It is over once done is closed.
type child struct {
	name  string
	group int
	log   string
	done  chan struct{}
	err   error // how it ended; nil: with status 0; valid once done is closed
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
	// A session of its own: a Ctrl-C in the terminal reaches this process only, and the group can be killed whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if dir.user != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(dir.user), Gid: uint32(dir.user)}
	}
	if err := cmd.Start(); err != nil {
		if dir.user != 0 && errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w: the user nobody, who is to run it, does not reach %s; chmod o+x the directories above it",
				err, dir.path)
		}
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	c := &child{name: name, group: cmd.Process.Pid, log: logPath, done: make(chan struct{})}
	watched := dir.watch(c.group, true)
	go func() {
		defer close(c.done)
		c.err = cmd.Wait()
		// Only a guard that died refuses the news, and then watched says so.
		_ = dir.watch(c.group, false)
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

// await calls probe until it succeeds. It gives up when ctx is done, after startTimeout, or as soon as the child has
// ended. The error then has the end of the child's log and, unless the child has ended, the last error of the probe.
func (c *child) await(ctx context.Context, probe func(context.Context) error) error {
	err := poll.Until(ctx, startTimeout, c.name+" to answer", func() error {
		if !c.running() {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		return probe(ctx)
	})
	if !c.running() {
		return fmt.Errorf("%s ended while starting (%w); its log ends:\n%s", c.name, c.err, c.tail())
	}
	if err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("%w; its log ends:\n%s", err, c.tail()))
	}
	return nil
}

// kill ends the child without warning and waits for its end. A child that is over already is no error.
func (c *child) kill() error {
	if !c.running() {
		return nil
	}
	if err := syscall.Kill(-c.group, syscall.SIGKILL); err != nil && c.running() {
		return fmt.Errorf("killing %s: %w", c.name, err)
	}
	<-c.done
	return nil
}

// tail is the end of the child's log, for errors.
func (c *child) tail() string {
	log, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(log[max(0, len(log)-logTail):]))
}
