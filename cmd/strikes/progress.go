package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress counts on a terminal, and is silent elsewhere.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(stderr io.Writer) *progress {
	if !isTerminal(stderr) {
		return &progress{}
	}
	return &progress{progressbar.NewOptions64(-1, progressbar.OptionSetWriter(stderr), progressbar.OptionSetDescription("published"),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("messages"),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSpinnerType(14), progressbar.OptionClearOnFinish())}
}

func (p *progress) add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n) // it writes to a terminal, which may be gone
	}
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

// isTerminal reports whether somebody can be shown, or asked, something there.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
