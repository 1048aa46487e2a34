// Package servers starts RabbitMQ, Redis, PostgreSQL and MariaDB as private children of this process, for the demo and
// for the integration tests.
//
// A private server listens on free loopback ports only, and reads no configuration of the machine's own servers. It
// keeps all its files in one temporary directory. Close ends it and removes the directory. When this process dies
// without calling Close, by SIGKILL too, a small guard process does the same.
//
// It runs on Linux and macOS.
package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

const (
	startTimeout = 2 * time.Minute // of a server that never answers, where ctx has no earlier deadline
	probeTimeout = 5 * time.Second
)

// server is a private server of any kind: its directory and ports, and one process at a time. Its methods are for one
// goroutine at a time.
type server struct {
	name  string
	dir   *workdir
	env   []string
	args  []string // the program, and its arguments
	probe func(context.Context) error
	child *child
}

func newServer(name string, ports int) (server, error) {
	dir, err := newWorkdir(ports)
	if err != nil {
		return server{}, fmt.Errorf("servers: private %s: %w", name, err)
	}
	env := []string{"PATH=" + searchPath(), "HOME=" + dir.path, "LC_ALL=C", "TZ=UTC"}
	return server{name: name, dir: dir, env: env}, nil
}

// addr is where the server listens on one of its ports.
func (s *server) addr(port int) string { return net.JoinHostPort("127.0.0.1", s.port(port)) }

func (s *server) port(i int) string { return strconv.Itoa(s.dir.ports[i]) }

// Start starts the server again after Stop or Kill, on the same ports, and waits until it answers. If it does not, it
// is stopped.
func (s *server) Start(ctx context.Context) (err error) {
	if s.child.running() {
		return fmt.Errorf("servers: %s runs already", s.name)
	}
	if s.child, err = startChild(s.dir, s.name, s.env, s.args...); err == nil {
		err = s.child.await(ctx, s.probe)
	}
	if err != nil {
		return fmt.Errorf("servers: starting %s from %s: %w", s.name, s.args[0], errors.Join(err, s.child.kill()))
	}
	return nil
}

// Running reports whether the server runs.
func (s *server) Running() bool { return s.child.running() }

// Group is the process group of a server that was started.
func (s *server) Group() int { return s.child.group }

// Stop ends the server as its service manager would, and waits until it has ended or ctx is done.
func (s *server) Stop(ctx context.Context) error { return s.end(ctx, syscall.SIGTERM) }

func (s *server) end(ctx context.Context, by syscall.Signal) error {
	if !s.child.running() {
		return nil
	}
	err := s.signal(by)
	select {
	case <-s.child.done:
		return nil
	case <-ctx.Done():
		return errors.Join(err, fmt.Errorf("servers: %s has not ended: %w", s.name, ctx.Err()))
	}
}

// Kill ends the server with SIGKILL, as a crash or the kernel would.
func (s *server) Kill() error { return s.child.kill() }

// Pause freezes the server: connections stay open and nothing answers, until Resume, Kill or Close.
func (s *server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *server) signal(sig syscall.Signal) error {
	err := os.ErrProcessDone
	if s.child.running() {
		err = syscall.Kill(-s.child.group, sig)
	}
	if err != nil {
		return fmt.Errorf("servers: sending %v to %s: %w", sig, s.name, err)
	}
	return nil
}

// Close kills the processes that still run, and removes the directory with all data. It must be called once; the
// server cannot be started again.
func (s *server) Close() error {
	if err := errors.Join(s.child.kill(), s.dir.close()); err != nil {
		return fmt.Errorf("servers: closing %s: %w", s.name, err)
	}
	return nil
}
