package demo

import (
	"errors"
	"io"
	"os"
	"strings"
)

// What is entered in the ledger.
const (
	entryAttempt = "attempt" // a handler begins with an order
	entryDone    = "done"    // it succeeds
)

// ledger is a file to which all consumers append a line for each attempt, in one write. It has no name, so it disappears with
// the last process that has it open.
type ledger struct{ file *os.File }

func newLedger() (*ledger, error) {
	f, err := os.CreateTemp("", "strikes-demo-")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	appending, err := os.OpenFile(f.Name(), os.O_APPEND|os.O_RDWR, 0)
	if err := errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, err
	}
	return &ledger{appending}, nil
}

// enter appends a line and returns how many of its kind there are, it included.
func (l *ledger) enter(what, id string) (int, error) {
	if _, err := l.file.WriteString(what + " " + id + "\n"); err != nil {
		return 0, err
	}
	counts, err := l.counts()
	return counts[what][id], err
}

// counts reads the whole ledger: the number of entries of each kind, by order.
func (l *ledger) counts() (map[string]map[string]int, error) {
	info, err := l.file.Stat()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.NewSectionReader(l.file, 0, info.Size()))
	counts := map[string]map[string]int{entryAttempt: {}, entryDone: {}}
	for line := range strings.Lines(string(text)) {
		what, id, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if counts[what] != nil {
			counts[what][id]++
		}
	}
	return counts, err
}
