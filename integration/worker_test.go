package integration

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/strikesmq/strikes/integration/internal/fleet"
)

// worker is the job of a process of this test binary: the one field that is set.
type worker struct {
	Child  *child
	Lanes  *laneChild
	Member *member
	Delay  *delayWorker
	Replay *replayer
	Serve  *endpoint
}

func init() {
	fleet.Main(func(ctx context.Context, w worker) error {
		switch {
		case w.Child != nil:
			return w.Child.run(ctx)
		case w.Lanes != nil:
			return w.Lanes.run(ctx)
		case w.Member != nil:
			return w.Member.run(ctx)
		case w.Delay != nil:
			return w.Delay.run(ctx)
		case w.Replay != nil:
			return w.Replay.run(ctx)
		default:
			return w.Serve.run(ctx)
		}
	})
}

// command returns a process to start. It ends with the test at the latest.
func (w worker) command(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd, stdin, err := fleet.Command(w)
	need(t, err)
	t.Cleanup(func() { _ = stdin.Close() })
	return cmd
}

// process is a consumer process that was started; ended tells how it ended.
type process struct {
	*os.Process
	ended chan error
}

// spawn starts a process, which does not outlive the test.
func (w worker) spawn(t *testing.T) process {
	t.Helper()
	return started(t, w.command(t))
}

func started(t *testing.T, cmd *exec.Cmd) process {
	t.Helper()
	need(t, cmd.Start())
	p := process{cmd.Process, make(chan error, 1)}
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		p.ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.Kill() // it has ended if the test went well
		<-reaped
	})
	return p
}

// crash ends it with SIGKILL.
func (p process) crash() {
	_ = p.Kill() // it may have ended
	<-p.ended
}

// terminate stops processes as a deployment does.
func terminate(t *testing.T, all ...process) {
	t.Helper()
	for _, p := range all {
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	for _, p := range all {
		if err := <-p.ended; err != nil {
			t.Errorf("a consumer process ended with %v", err)
		}
	}
}
