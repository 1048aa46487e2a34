package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/ops"
)

// errNoDrop says that a drop has no directory.
var errNoDrop error = formError{"no directory for the files of a drop; start the console with --drop-dir, or set " +
	"Options.DropDir and Options.Encode"}

// keeper writes what a job drops to a file of the console. It opens the file with the first dead letter, because none
// may match, or the audit may refuse the job.
type keeper struct {
	c    *Console
	j    *job
	from string // the dead-letter queue
	file *os.File
}

// keeper returns the keeper of a job; an error if the console has no directory for it.
func (c *Console) keeper(j *job, from string) (*keeper, error) {
	if c.opts.DropDir == "" || c.opts.Encode == nil {
		return nil, errNoDrop
	}
	return &keeper{c: c, j: j, from: from}, nil
}

// keep returns nil once the messages are on disk.
func (k *keeper) keep(messages []*deadletter.Message) (err error) {
	if k.file == nil {
		name, dir := fileName(k.j.Queue, time.Now()), k.c.opts.DropDir
		k.file, err = os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			err = ops.SyncDir(dir)
		}
		if err != nil {
			return fmt.Errorf("nothing is dropped: %w", err)
		}
		k.j.update(func(s *jobState) { s.File = name })
	}
	return ops.Keep(k.file, k.c.opts.Encode, k.from, messages)
}

// end closes the file, and returns err.
func (k *keeper) end(err error) error {
	if k.file == nil {
		return err
	}
	return errors.Join(err, k.file.Close())
}

// unsafe are the characters that a file name does not take from a queue's.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

func fileName(queue string, now time.Time) string {
	return fmt.Sprintf("%.80s-%s.ndjson", unsafe.ReplaceAllString(queue, "_"), now.UTC().Format("20060102T150405.000000Z"))
}

// dropped are the names of files that the console writes.
var dropped = regexp.MustCompile(`\A[A-Za-z0-9_-]+-[0-9]{8}T[0-9]{6}\.[0-9]{6}Z\.ndjson\z`)

// file sends a file of dropped dead letters to those who may drop.
func (c *Console) file(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("name")
	switch {
	case !visitorOf(r).Allowed.Has(VerbDrop):
		return forbiddenError{VerbDrop}
	case c.opts.DropDir == "" || !dropped.MatchString(name):
		return errNoPage
	}
	f, err := os.Open(filepath.Join(c.opts.DropDir, name))
	if err != nil {
		return errNoPage
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(name))
	http.ServeContent(w, r, "", time.Time{}, f)
	return nil
}
