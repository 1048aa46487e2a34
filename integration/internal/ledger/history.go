// Package ledger keeps the histories of the laboratory. Each process writes its events down, one a line.
package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/strikesmq/strikes/internal/audit"
)

// A Log is one process's part of a history. It is safe for use by many goroutines, and a process that is killed leaves
// whole lines only.
type Log struct {
	file    *os.File
	process int
}

// Append opens the part of a process in dir, and creates it if it does not exist.
func Append(dir string, process int) (*Log, error) {
	name := filepath.Join(dir, fmt.Sprintf("%06d.ndjson", process))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return &Log{file: file, process: process}, nil
}

// Write adds an event, in one write(2), and panics if it cannot: a history with a hole proves nothing.
func (l *Log) Write(e audit.Event) {
	e.Process = l.process
	l.Forward(e)
}

// Forward is Write for an event that is about another process.
func (l *Log) Forward(e audit.Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("ledger: writing an event: %v", err))
	}
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// Read returns the events of all parts in dir in the order of their times.
func Read(dir string) ([]audit.Event, error) {
	all, err := next(dir, map[string]int64{})
	slices.SortStableFunc(all, func(a, b audit.Event) int { return a.At.Compare(b.At) })
	return all, err
}

// next returns the events beyond the bytes of each part that were read, part by part.
func next(dir string, read map[string]int64) ([]audit.Event, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.ndjson"))
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	var all []audit.Event
	for _, name := range names {
		some, n, err := readFrom(name, read[name])
		if err != nil {
			return nil, fmt.Errorf("ledger: %s: %w", filepath.Base(name), err)
		}
		read[name] += n
		all = append(all, some...)
	}
	return all, nil
}

// readFrom reads whole lines from an offset, and says how many bytes they are.
func readFrom(name string, offset int64) (events []audit.Event, n int64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	written, err := io.ReadAll(io.NewSectionReader(file, offset, math.MaxInt64-offset))
	if err != nil {
		return nil, 0, err
	}
	for line := range bytes.Lines(written[:bytes.LastIndexByte(written, '\n')+1]) {
		var e audit.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, 0, fmt.Errorf("at byte %d: %w", offset+n, err)
		}
		n += int64(len(line))
		events = append(events, e)
	}
	return events, n, nil
}

// Progress follows the messages in a history. A process may die between settling a delivery and writing that down, so
// Progress ignores settlements. The queue shows whether one was lost.
type Progress struct {
	dir       string
	read      map[string]int64 // bytes of each part
	Confirmed map[string]bool
	Begun     map[string]bool
	Done      map[string]bool // handled, or about to be dead-lettered
	Dead      map[string]bool // about to be dead-lettered
	Last      time.Time       // when the newest begin of a handler was read
}

// NewProgress begins at the beginning of the history in dir.
func NewProgress(dir string) *Progress {
	return &Progress{dir: dir, read: map[string]int64{}, Confirmed: map[string]bool{}, Begun: map[string]bool{},
		Done: map[string]bool{}, Dead: map[string]bool{}, Last: time.Now()}
}

// Update reads the events that were written since.
func (p *Progress) Update() error {
	events, err := next(p.dir, p.read)
	for _, e := range events {
		switch {
		case e.Kind == audit.Published && e.Outcome == audit.Confirmed:
			p.Confirmed[e.ID] = true
		case e.Kind == audit.Began:
			p.Begun[e.ID], p.Last = true, time.Now()
		case e.Kind == audit.Decided:
			p.Dead[e.ID], p.Done[e.ID] = true, true
		case e.Kind == audit.Dead, e.Kind == audit.Ended && e.Outcome == audit.OK:
			p.Done[e.ID] = true
		}
	}
	return err
}

// Open is how many confirmed messages are not done.
func (p *Progress) Open() (n int) {
	for id := range p.Confirmed {
		if !p.Done[id] {
			n++
		}
	}
	return n
}
