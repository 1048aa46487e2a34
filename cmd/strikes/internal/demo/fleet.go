package demo

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

// maxRestarts of one consumer: the deadly order kills fewer, and more are a sign that nothing works.
const maxRestarts = kills + 2

// event is news of one consumer process.
type event struct {
	consumer int // 1, 2, …
	pid      int
	report   *report // nil: the process started or ended
	ended    string  // how; empty: it started
}

// fleet keeps the consumers running: processes of this binary.
type fleet struct {
	env    []string
	ledger *ledger
	stderr io.Writer
	events chan event

	members sync.WaitGroup
}

// start starts n consumers, and restarts each that ends, until ctx is done. events closes once all have ended.
func (f *fleet) start(ctx context.Context, n int) {
	f.events = make(chan event, 100)
	for i := range n {
		f.members.Go(func() { f.keep(ctx, i+1) })
	}
	go func() { f.members.Wait(); close(f.events) }()
}

func (f *fleet) keep(ctx context.Context, number int) {
	for range maxRestarts + 1 {
		pid, err := f.run(ctx, number)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.events <- event{consumer: number, pid: pid, ended: err.Error()}
		}
	}
}

// run runs one process to its end, and returns its pid; 0: it did not start. When ctx is done the process is asked to
// stop, and killed if it does not.
func (f *fleet) run(ctx context.Context, number int) (pid int, err error) {
	path, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, path, Command) //nolint:gosec // itself
	cmd.Args[0] = "strikes"
	cmd.Env, cmd.Stderr, cmd.ExtraFiles = f.env, f.stderr, []*os.File{f.ledger.file}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 5*time.Second
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe() // held open for as long as this process lives
	if err != nil {
		return 0, err
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid = cmd.Process.Pid
	f.events <- event{consumer: number, pid: pid}
	read := f.reports(number, pid, stdout)
	if err := cmd.Wait(); err != nil {
		return pid, err
	}
	return pid, read
}

// reports passes on the reports of a process until it ends.
func (f *fleet) reports(number, pid int, from io.Reader) error {
	scanner := bufio.NewScanner(from)
	for scanner.Scan() {
		var r report
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil { //nolint:musttag // written by this package
			return fmt.Errorf("reading a report of consumer %d: %.80q: %w", number, scanner.Text(), err)
		}
		f.events <- event{consumer: number, pid: pid, report: &r}
	}
	return scanner.Err()
}
