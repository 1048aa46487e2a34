package term

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progressEvery is the time between two lines of progress where there is no terminal.
const progressEvery = 10 * time.Second

// Progress shows how far long work is: a bar on a terminal, elsewhere a line every ten seconds.
type Progress struct {
	w     io.Writer
	bar   *progressbar.ProgressBar
	doing string
	last  time.Time
}

// NewProgress returns one that writes to w.
func NewProgress(w io.Writer) *Progress { return &Progress{w: w, last: time.Now()} }

// Show shows the action and how many messages it has done; all is negative if it is not known.
func (p *Progress) Show(doing string, done, all int) {
	if !IsTerminal(p.w) {
		p.line(doing, done, all)
		return
	}
	if p.bar == nil || p.doing != doing {
		p.Finish()
		p.doing = doing
		p.bar = progressbar.NewOptions(all, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(doing),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("messages"),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSpinnerType(14),
			progressbar.OptionClearOnFinish())
	}
	_ = p.bar.Set(done) // the terminal may be gone
}

func (p *Progress) line(doing string, done, all int) {
	if time.Since(p.last) < progressEvery {
		return
	}
	p.last = time.Now()
	if all < 0 {
		fmt.Fprintf(p.w, "%s: %d\n", doing, done)
		return
	}
	fmt.Fprintf(p.w, "%s: %d of %d\n", doing, done, all)
}

// Finish takes the bar away.
func (p *Progress) Finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}
