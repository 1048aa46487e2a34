// Package fleet starts consumer processes, and keeps them running: each can be stopped, frozen, cut off and killed.
package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/internal/pause"
)

// env has the configuration of a worker in JSON.
const env = "STRIKES_WORKER"

// Main runs work and ends this process, if it is a worker; else it returns. ctx ends with SIGTERM.
func Main[S any](work func(ctx context.Context, spec S) error) {
	text, ok := os.LookupEnv(env)
	if !ok {
		return
	}
	go dieWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	var spec S
	err := json.Unmarshal([]byte(text), &spec)
	if err == nil {
		err = work(ctx, spec)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// dieWithParent ends this process when the parent, which holds the other end of its standard input, is gone. If it is
// stopped then, the kernel continues it, as its process group is orphaned.
func dieWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(3)
}

// Command returns a worker to start: another program, or this one with its first argument if none is given. It ends
// when stdin is closed, also because this process ends. An interrupt from the terminal does not reach it.
func Command(spec any, program ...string) (cmd *exec.Cmd, stdin io.Closer, err error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, nil, err
	}
	if len(program) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, nil, err
		}
		program = append([]string{self}, os.Args[1:min(2, len(os.Args))]...)
	}
	cmd = exec.Command(program[0], program[1:]...) //nolint:gosec,noctx // of the caller, who ends it
	cmd.Env = append(os.Environ(), env+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err = cmd.StdinPipe()
	return cmd, stdin, err
}

// EndWithParent calls cancel when the process that started this one is gone: "go run" does not pass a SIGTERM on.
func EndWithParent(ctx context.Context, cancel context.CancelFunc) {
	parent := os.Getppid()
	for pause.For(ctx, time.Second) {
		if os.Getppid() != parent {
			cancel()
		}
	}
}
