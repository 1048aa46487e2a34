package demo

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// What is entered in the ledger.
const (
	entryAttempt = "attempt" // a handler begins with an order
	entryDone    = "done"    // it succeeds
)

// ledger is a file to which all consumers append a line for each attempt, in one write. It has no name, so it
// disappears with the last process that has it open.
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

// entry is a line of the ledger.
type entry struct {
	what, id string
	pid      int // of the consumer
}

// enter appends a line and returns how many of its kind there are, it included.
func (l *ledger) enter(what, id string) (int, error) {
	if _, err := l.file.WriteString(what + " " + id + " " + strconv.Itoa(os.Getpid()) + "\n"); err != nil {
		return 0, err
	}
	all, err := l.entries()
	return countEntries(all, what)[id], err
}

// entries reads the whole ledger.
func (l *ledger) entries() (all []entry, err error) {
	info, err := l.file.Stat()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.NewSectionReader(l.file, 0, info.Size()))
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 {
			pid, _ := strconv.Atoi(fields[2])
			all = append(all, entry{fields[0], fields[1], pid})
		}
	}
	return all, err
}

// countEntries returns the number of entries of a kind, by order.
func countEntries(all []entry, what string) map[string]int {
	counts := map[string]int{}
	for _, e := range all {
		if e.what == what {
			counts[e.id]++
		}
	}
	return counts
}

// handledAgain returns how often orders were handled again because a consumer was killed after it handled them and
// before the broker had its ack.
func handledAgain(all []entry, killed map[int]bool) map[string]int {
	done := countEntries(all, entryDone)
	again := countEntries(slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return !killed[e.pid] }), entryDone)
	for id := range again {
		again[id] = min(again[id], done[id]-1) // the ack of the last one may have arrived
	}
	maps.DeleteFunc(again, func(_ string, n int) bool { return n == 0 })
	return again
}
