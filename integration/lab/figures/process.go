package figures

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/integration/internal/fleet"
)

// process is a consumer process that was started. It does not outlive this one.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan line // closed at the end of the process
}

func spawn(spec workerSpec) (*process, error) {
	cmd, stdin, err := fleet.Command(spec)
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting a consumer process: %w", err)
	}
	p := &process{cmd: cmd, stdin: stdin, lines: make(chan line, 10000)}
	go p.read(stdout)
	return p, nil
}

func (p *process) read(stdout io.Reader) {
	defer close(p.lines)
	for d := json.NewDecoder(stdout); ; {
		var l line
		if d.Decode(&l) != nil { //nolint:musttag // written by this program
			return
		}
		p.lines <- l
	}
}

// until passes over what the process tells until a line is what is waited for, and returns that.
func (p *process) until(ctx context.Context, within time.Duration, what string, is func(line) bool) (line, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	var last line
	for {
		select {
		case l, ok := <-p.lines:
			if !ok {
				return last, fmt.Errorf("waiting for %s: the consumer process has ended", what)
			}
			if last = l; is(l) {
				return l, nil
			}
		case <-timer.C:
			return last, fmt.Errorf("waiting %v for %s: the consumer's last report was %+v", within, what, last.Tally)
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// at returns the first report from t on.
func (p *process) at(ctx context.Context, t time.Time) (line, error) {
	return p.until(ctx, time.Until(t)+30*time.Second, "a report", func(l line) bool { return !l.At.Before(t) })
}

func (p *process) terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// wait passes over what the process still tells, and returns how it ended.
func (p *process) wait() error {
	for more := true; more; {
		_, more = <-p.lines
	}
	err := p.cmd.Wait()
	_ = p.stdin.Close() // Wait has closed it
	return err
}

// stop ends the process as a deployment does.
func (p *process) stop() error {
	if err := p.terminate(); err != nil {
		return err
	}
	if err := p.wait(); err != nil {
		return fmt.Errorf("a consumer process ended with %w", err)
	}
	return nil
}

// end kills the process where it may still run, and waits for it.
func (p *process) end() {
	_ = p.cmd.Process.Kill() // it has ended if all went well
	_ = p.wait()
}
