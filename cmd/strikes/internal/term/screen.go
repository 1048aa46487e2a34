package term

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/muesli/cancelreader"
	"golang.org/x/term"
)

// The escape sequences of a screen: xterm's, which every terminal of today knows or ignores.
const (
	screenOpen  = "\x1b[?1049h\x1b[?25l\x1b[?7l" // the alternate screen, no cursor, no wrapping
	screenClose = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	frameBegin  = "\x1b[?2026h\x1b[H" // shown in one piece where that is known; from the top
	frameEnd    = "\x1b[J\x1b[?2026l" // nothing below
	clearRight  = "\x1b[K"
)

// Screen draws on a terminal, whole frames over each other, and listens for the key that ends it.
type Screen struct {
	Ended chan struct{} // closes when q or ctrl-C was pressed, or the terminal is gone

	out    *os.File
	color  bool
	drawn  []string // the last frame
	size   [2]int   // that it was drawn for
	in     *os.File
	before *term.State // of in; nil if it is no terminal
	keys   cancelreader.CancelReader
	reads  sync.WaitGroup
}

// OpenScreen takes the terminal. The caller gives it back with Close.
func OpenScreen(stdin io.Reader, stdout io.Writer) (*Screen, error) {
	out, ok := stdout.(*os.File)
	if !ok {
		return nil, errors.New("stdout is not a terminal")
	}
	s := &Screen{Ended: make(chan struct{}), out: out, color: Colored(out)}
	if in, ok := stdin.(*os.File); ok && IsTerminal(in) {
		if err := s.listen(in); err != nil {
			return nil, fmt.Errorf("terminal: %w", err)
		}
	}
	_, err := io.WriteString(out, screenOpen)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// listen reads keys as they are pressed.
func (s *Screen) listen(in *os.File) (err error) {
	if s.keys, err = cancelreader.NewReader(in); err != nil {
		return err
	}
	if s.before, err = term.MakeRaw(int(in.Fd())); err != nil {
		return errors.Join(err, s.keys.Close())
	}
	s.in = in
	s.reads.Go(func() {
		key := make([]byte, 16)
		for {
			n, err := s.keys.Read(key)
			if err != nil || slices.ContainsFunc(key[:n], ends) {
				close(s.Ended)
				return
			}
		}
	})
	return nil
}

// ends reports whether a key ends the screen: q, or ctrl-C or ctrl-D, which are no signals meanwhile.
func ends(key byte) bool { return strings.IndexByte("qQ\x03\x04", key) >= 0 }

// Draw shows rows, cut to the size of the terminal. What is there already is not drawn again.
func (s *Screen) Draw(rows []Row) error {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	frame, size := Fitted(rows, width, height, s.color), [2]int{width, height}
	if size == s.size && slices.Equal(frame, s.drawn) {
		return nil
	}
	s.drawn, s.size = frame, size
	_, err = io.WriteString(s.out, frameBegin+strings.Join(frame, clearRight+"\r\n")+clearRight+frameEnd)
	return err
}

// Close gives the terminal back as it was.
func (s *Screen) Close() error {
	_, err := io.WriteString(s.out, screenClose)
	if s.before == nil {
		return err
	}
	if s.keys.Cancel() { // else a key is waited for, and with it the end of the program
		s.reads.Wait()
	}
	return errors.Join(err, s.keys.Close(), term.Restore(int(s.in.Fd()), s.before))
}
