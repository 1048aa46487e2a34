package main

import (
	"errors"
	"io"
	"os"
	"strings"
)

// What is entered in the ledger.
const (
	entryRun  = "run"  // a handler begins with an order
	entryDone = "done" // it is through with it
)

// ledger is a file to which all consumers append a line, in one write, for what they do. It has no name, so nothing of it is
// left when the last process that has it open ends, however that ends.
type ledger struct{ file *os.File }

// newLedger makes an empty one.
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

// counts reads the whole ledger: how often what was entered for which order.
func (l *ledger) counts() (map[string]map[string]int, error) {
	info, err := l.file.Stat()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.NewSectionReader(l.file, 0, info.Size()))
	counts := map[string]map[string]int{entryRun: {}, entryDone: {}}
	for line := range strings.Lines(string(text)) {
		what, id, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if counts[what] != nil {
			counts[what][id]++
		}
	}
	return counts, err
}
