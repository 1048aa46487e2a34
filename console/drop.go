package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/strikesmq/strikes/deadletter"
)

// watchFor is how long a replay watches whether the last messages fail again.
const watchFor = 2 * time.Second

// errNoDrop says that a drop has no directory.
var errNoDrop error = formError{"no directory for the files of a drop; start the console with --drop-dir, or set " +
	"Options.DropDir and Options.Encode"}

// prepareDrop returns the work of a drop. The work opens its file with the first dead letter, because no dead letter
// may match, or the audit may refuse the job.
func (c *Console) prepareDrop(j *job, q deadLetters) (jobWork, error) {
	if c.opts.DropDir == "" || c.opts.Encode == nil {
		return nil, errNoDrop
	}
	return func(ctx context.Context, begin func() error) (outcome, error) {
		var f *os.File
		done, err := q.Drop(ctx, j.Filter.Filter, j.Of, func(messages []*deadletter.Message) (err error) {
			if err := begin(); err != nil {
				return err
			}
			if f == nil {
				if f, err = c.dropFile(j); err != nil {
					return fmt.Errorf("nothing is dropped: %w", err)
				}
			}
			err = c.keep(f, messages, q.Name())
			j.progress(deadletter.Progress{Doing: "dropping", Done: j.State().Done + len(messages)})
			return err
		})
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		return j.outcomeOf(done, err), err
	}, nil
}

// dropFile opens the file of a drop. A dead letter leaves its queue once it is on disk.
func (c *Console) dropFile(j *job) (*os.File, error) {
	name := fileName(j.Queue, time.Now())
	f, err := os.OpenFile(filepath.Join(c.opts.DropDir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syncDir(c.opts.DropDir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	j.update(func(s *jobState) { s.File = name })
	return f, nil
}

// keep returns nil once the messages are on disk.
func (c *Console) keep(f *os.File, messages []*deadletter.Message, from string) error {
	w := bufio.NewWriter(f)
	for _, m := range messages {
		text, err := c.opts.Encode(m.ForReplay(from))
		if err != nil {
			return fmt.Errorf("message %q cannot be written to the file: %w", m.Name(), err)
		}
		if _, err := w.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), f.Sync())
}

// syncDir makes sure that a new file has its name on disk.
func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// unsafe are the characters that a file name does not take from a queue's.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

func fileName(queue string, now time.Time) string {
	return fmt.Sprintf("%.80s-%s.ndjson", unsafe.ReplaceAllString(queue, "_"), now.UTC().Format("20060102T150405.000000Z"))
}

// dropped are the names of files that the console writes.
var dropped = regexp.MustCompile(`\A[A-Za-z0-9_-]+-[0-9]{8}T[0-9]{6}\.[0-9]{6}Z\.ndjson\z`)

// file sends a file of dropped dead letters to those who may drop.
func (c *Console) file(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	switch {
	case !visitorOf(r).Allowed.Has(VerbDrop):
		c.fail(w, r, forbiddenError{VerbDrop})
		return
	case c.opts.DropDir == "" || !dropped.MatchString(name):
		c.fail(w, r, errNoPage)
		return
	}
	f, err := os.Open(filepath.Join(c.opts.DropDir, name))
	if err != nil {
		c.fail(w, r, errNoPage)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(name))
	http.ServeContent(w, r, "", time.Time{}, f)
}
