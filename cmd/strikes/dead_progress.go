package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/strikesmq/strikes/deadletter"
)

// reportEvery is how often progress is told where there is no terminal.
const reportEvery = 10 * time.Second

// deadProgress tells of long work: a bar on a terminal, else a line now and then.
type deadProgress struct {
	stderr io.Writer
	bar    *progressbar.ProgressBar
	doing  string
	last   time.Time
}

func newDeadProgress(stderr io.Writer) *deadProgress {
	return &deadProgress{stderr: stderr, last: time.Now()}
}

func (p *deadProgress) tell(at deadletter.Progress) {
	if !isTerminal(p.stderr) {
		if time.Since(p.last) >= reportEvery {
			p.last = time.Now()
			fmt.Fprintf(p.stderr, "%s: %d of %d\n", at.Doing, at.Done, at.Of)
		}
		return
	}
	if p.doing != at.Doing {
		p.finish()
		p.doing = at.Doing
		p.bar = progressbar.NewOptions(at.Of, progressbar.OptionSetWriter(p.stderr), progressbar.OptionSetDescription(at.Doing),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("messages"),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	_ = p.bar.Set(at.Done) // it writes to a terminal, which may be gone
}

func (p *deadProgress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}
