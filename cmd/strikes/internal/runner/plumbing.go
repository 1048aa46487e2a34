package runner

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// A command has ended with all of its group; what it printed is in the pipes. A process that has left the group and
// holds them open is read from for a short time only: no pipe holds more than lastBytes.
const (
	lastOutput = 100 * time.Millisecond
	lastBytes  = 1 << 20
)

// plumbing copies what a command prints. The pipes are ours, not exec.Cmd's, whose Wait would wait for every process
// that holds their other ends.
type plumbing struct {
	copies sync.WaitGroup
	ended  chan struct{} // the command has
	ours   []*os.File
	theirs []*os.File
}

func newPlumbing() *plumbing { return &plumbing{ended: make(chan struct{})} }

// copyTo returns the file that the command is to print to.
func (p *plumbing) copyTo(w io.Writer) (*os.File, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.ours, p.theirs = append(p.ours, ours), append(p.theirs, theirs)
	p.copies.Go(func() { p.copy(w, ours) })
	return theirs, nil
}

// reader is an *os.File, as far as copy needs it.
type reader interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

// copy reads to the end, or, once the command has ended, until nothing more comes immediately. The time that a slow w
// takes does not count.
func (p *plumbing) copy(w io.Writer, from reader) {
	buffer := make([]byte, 32<<10)
	lastRead := false // it began after the command had ended, so it meets all output that came before
	for last := 0; last < lastBytes; {
		began := time.Now()
		n, err := from.Read(buffer)
		_, _ = w.Write(buffer[:n]) // if it fails, as on a full disk, reading on keeps the command from blocking
		if err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || lastRead && time.Since(began) >= lastOutput/2) {
			return
		}
		select {
		case <-p.ended:
			last, lastRead = last+n, true
			_ = from.SetReadDeadline(time.Now().Add(lastOutput))
		default:
		}
	}
}

// handedOver closes the ends that the command has by now.
func (p *plumbing) handedOver() {
	for _, f := range p.theirs {
		_ = f.Close()
	}
}

// close waits for the copies. The command must have ended.
func (p *plumbing) close() {
	close(p.ended)
	for _, f := range p.ours {
		_ = f.SetReadDeadline(time.Now().Add(lastOutput))
	}
	p.copies.Wait()
	for _, f := range p.ours {
		_ = f.Close()
	}
}
