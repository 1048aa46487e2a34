package servers

import (
	"context"
	"fmt"
	"syscall"
)

// process is the running program of a private server. What the server had written stays for its Start.
type process struct{ server *child }

// Running reports whether the server runs.
func (p *process) Running() bool { return p.server.running() }

// Group is the process group of the running server, zero before Start.
func (p *process) Group() int { return p.server.groupID() }

// Stop ends the server as its service manager would, and waits until it has ended or ctx is done.
func (p *process) Stop(ctx context.Context) error { return wrap("stopping", p.server.terminate(ctx)) }

// Kill ends the server with SIGKILL, as a crash or the kernel would.
func (p *process) Kill() error { return wrap("ending", p.server.kill()) }

// Pause freezes the server: connections stay open and nothing answers, until Resume, Kill or Close.
func (p *process) Pause() error { return p.signal("pausing", sigStop) }

// Resume ends a Pause.
func (p *process) Resume() error { return p.signal("resuming", sigCont) }

func (p *process) signal(doing string, sig syscall.Signal) error {
	return wrap(doing, p.server.signal(sig))
}

func wrap(doing string, err error) error {
	if err != nil {
		return fmt.Errorf("servers: %s: %w", doing, err)
	}
	return nil
}
