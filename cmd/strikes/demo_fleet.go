package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// maxRestarts of one consumer: as many as the deadly order kills, and more are a sign that nothing works.
const maxRestarts = demoKills + 2

// fleetEvent is news of one consumer process.
type fleetEvent struct {
	consumer int // 1, 2, …
	pid      int
	decision *decision // nil: the process started or ended
	ended    string    // how, if it did; else it started
}

// fleet keeps the consumers of the demo running: processes of this binary.
type fleet struct {
	args   []string // of the binary
	env    []string
	ledger *ledger
	stderr io.Writer
	events chan fleetEvent

	members sync.WaitGroup
}

// start starts n consumers, and starts each again that ends, until ctx is done; then events closes, once all have ended.
func (f *fleet) start(ctx context.Context, n int) {
	f.events = make(chan fleetEvent, 100)
	for i := range n {
		f.members.Go(func() { f.keep(ctx, i+1) })
	}
	go func() { f.members.Wait(); close(f.events) }()
}

func (f *fleet) keep(ctx context.Context, number int) {
	for range maxRestarts + 1 {
		err := f.run(ctx, number)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.events <- fleetEvent{consumer: number, ended: err.Error()}
		}
	}
}

// run runs one process to its end. When ctx is done it is told to stop, and killed if it does not.
func (f *fleet) run(ctx context.Context, number int) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, f.args...) //nolint:gosec // itself
	cmd.Args[0] = "strikes"
	cmd.Env, cmd.Stderr, cmd.ExtraFiles = f.env, f.stderr, []*os.File{f.ledger.file}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 5*time.Second
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe() // held open for as long as this process lives
	if err != nil {
		return err
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f.events <- fleetEvent{consumer: number, pid: cmd.Process.Pid}
	read := f.decisions(number, cmd.Process.Pid, stdout)
	if err := cmd.Wait(); err != nil {
		return err
	}
	return read
}

// decisions passes on what the process says until it ends.
func (f *fleet) decisions(number, pid int, from io.Reader) error {
	scanner := bufio.NewScanner(from)
	for scanner.Scan() {
		var d decision
		if err := json.Unmarshal(scanner.Bytes(), &d); err != nil {
			return fmt.Errorf("consumer %d said %.80q: %w", number, scanner.Text(), err)
		}
		f.events <- fleetEvent{consumer: number, pid: pid, decision: &d}
	}
	return scanner.Err()
}
