package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/deadletter"
)

// keepFile is where dead messages are kept.
type keepFile struct {
	*os.File
	n     int
	from  string // which queue
	fresh bool   // it was not there before
}

// openKeep opens a file for dead messages after what is there. Only its owner may read it: they may hold anything.
func openKeep(name, from string) (*keepFile, error) {
	_, missing := os.Stat(name)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600) //nolint:gosec // the user names it
	if err != nil {
		return nil, cli.Misusef("nothing is dropped: %w", err)
	}
	k := &keepFile{File: f, from: from, fresh: errors.Is(missing, fs.ErrNotExist)}
	if err := errors.Join(k.endLine(), syncDir(filepath.Dir(name))); err != nil {
		return nil, errors.Join(fmt.Errorf("nothing is dropped: %w", err), f.Close())
	}
	return k, nil
}

// endLine ends a last line that was cut off, so that the next one does not become part of it.
func (k *keepFile) endLine() error {
	info, err := k.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return err
	}
	var last [1]byte
	if _, err := k.ReadAt(last[:], info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = k.WriteString("\n")
	return err
}

// finish closes the file, and leaves none behind for nothing.
func (k *keepFile) finish() error {
	err := k.Close()
	if k.n == 0 && k.fresh {
		err = errors.Join(err, os.Remove(k.Name()))
	}
	return err
}

// keep returns nil once the messages are on disk.
func (k *keepFile) keep(messages []*deadletter.Message) error {
	w := bufio.NewWriter(k.File)
	out := json.NewEncoder(w)
	for _, m := range messages {
		if err := out.Encode(jsonl.MessageOf(m.ForReplay(k.from))); err != nil {
			return fmt.Errorf("message %q cannot be written to the file: %w", m.Name(), err)
		}
	}
	if err := errors.Join(w.Flush(), k.Sync()); err != nil {
		return err
	}
	k.n += len(messages)
	return nil
}

// keepLine returns nil once the line is on disk.
func (k *keepFile) keepLine(line []byte) error {
	if _, err := k.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("the message cannot be written to the file: %w", err)
	}
	if err := k.Sync(); err != nil {
		return err
	}
	k.n++
	return nil
}

// syncDir makes sure that a new file has its name on disk.
func syncDir(name string) error {
	d, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
