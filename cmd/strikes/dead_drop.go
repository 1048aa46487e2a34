package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
)

func (a *app) dropDead(ctx context.Context, o deadOptions, queue string, ids []string) error {
	f, err := chosen(o, ids)
	if err != nil {
		return err
	}
	to := o.to
	if to == "" {
		return cli.Misusef("--to FILE is missing: they are written there first")
	}
	if to == "-" {
		return cli.Misusef("--to is \"-\", and what stdout got cannot be known to be safe: give a file (./- is one of that name)")
	}
	g, err := a.graveyardOf(ctx, o, queue)
	if err != nil {
		return err
	}
	defer g.close()
	ok, err := a.agreed(ctx, o, g, deadVerb{"drop", "dropped", ", once they are in " + term.Shown(to), f, o.max})
	if err != nil || !ok {
		return err
	}
	file, err := openKeep(to, g.dead.Name)
	if err != nil {
		return err
	}
	p := term.NewProgress(a.Err)
	g.dead.Progress = showing(p)
	g.mind(a.Err)
	want := seek(f.IDs)
	result, err := g.dead.Drop(ctx, f, o.max, func(letters []*deadletter.Message) error {
		for _, l := range letters {
			want.saw(l)
		}
		if err := file.keep(letters); err != nil {
			return err
		}
		return a.toldDropped(letters, o.json)
	})
	p.Finish()
	err = errors.Join(err, file.finish())
	var b strings.Builder
	fmt.Fprintf(&b, "%d dropped, %d in %s", result.Done, file.n, term.Shown(to))
	name(&b, "in the file, and maybe still dead letters", len(result.Undecided), result.Undecided)
	fmt.Fprintln(a.Err, b.String())
	g.untold(a.Err, result.RecordsErr)
	if err == nil && result.Done == 0 {
		return g.nothing(want)
	}
	if err == nil && !reached(o.max, result.Done) {
		err = want.missing(g.dead.Name)
	}
	return g.fail(err)
}

// reached reports whether --max ended it, and not that there were no more.
func reached(most, done int) bool { return most > 0 && done >= most }

func (a *app) toldDropped(letters []*deadletter.Message, asJSON bool) error {
	if !asJSON {
		return nil
	}
	out := jsonl.NewEncoder(a.Out)
	for _, l := range letters {
		if err := out.Encode(map[string]any{"id": l.ID, "fingerprint": l.Fingerprint, "written": true}); err != nil {
			return err
		}
	}
	return nil
}

// keepFile is where dead letters are kept.
type keepFile struct {
	*os.File
	n     int
	from  string // which queue
	fresh bool   // it was not there before
}

// openKeep opens a file for dead letters behind what is there. Only its owner may read it: they may hold anything.
func openKeep(name, from string) (*keepFile, error) {
	_, missing := os.Stat(name)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600) //nolint:gosec // the user names it
	if err != nil {
		return nil, fmt.Errorf("nothing is dropped: %w", err)
	}
	k := &keepFile{File: f, from: from, fresh: errors.Is(missing, fs.ErrNotExist)}
	if err := errors.Join(k.mend(), syncDir(filepath.Dir(name))); err != nil {
		return nil, errors.Join(fmt.Errorf("nothing is dropped: %w", err), f.Close())
	}
	return k, nil
}

// mend ends a last line that was cut off, so that the next one does not become part of it.
func (k *keepFile) mend() error {
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

// keep returns nil once the letters are on disk.
func (k *keepFile) keep(letters []*deadletter.Message) error {
	w := bufio.NewWriter(k.File)
	out := json.NewEncoder(w)
	for _, l := range letters {
		if err := out.Encode(jsonl.MessageOf(l.ForReplay(k.from))); err != nil {
			return fmt.Errorf("message %q cannot be written to the file: %w", l.Name(), err)
		}
	}
	if err := errors.Join(w.Flush(), k.Sync()); err != nil {
		return err
	}
	k.n += len(letters)
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
