package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/ops"
)

// job is a replay or a drop under way, or the last one of a queue. It outlives the request that began it.
type job struct {
	Verb   Verb // that a visitor needs to stop it
	Queue  string
	Filter filter
	Whole  bool // everything in the dead-letter queue is meant: no other queue shares it
	Of     int  // dead letters at the preview; no more are taken
	Reason string
	Actor  string
	Begun  time.Time

	mu   sync.Mutex
	now  jobState
	stop context.CancelFunc
}

type jobState struct {
	Doing   string
	Done    int
	Ended   time.Time // zero: it runs
	Result  string
	OK      bool
	Again   []string // failed again
	File    string   // of a drop
	Stopped string   // name of the operator who stopped it
}

// State returns how far the job is.
func (j *job) State() jobState {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now
}

// What describes the work of the job.
func (j *job) What() string { return string(j.Verb) + " " + j.Filter.Text() }

func (j *job) update(f func(*jobState)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.now)
}

func (j *job) progress(p deadletter.Progress) {
	j.update(func(s *jobState) {
		s.Doing = p.Doing
		if p.Doing != "reading" && p.Doing != "returning" {
			s.Done = p.Done
		}
	})
}

// jobs are the jobs of all queues: one each.
type jobs struct {
	mu      sync.Mutex
	byQueue map[string]*job
	running sync.WaitGroup
}

// of returns the job of a queue that runs, or that ran last; nil: none.
func (s *jobs) of(queue string) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byQueue[queue]
}

var errRuns error = refusedError{http.StatusConflict, "a replay or a drop of this queue is under way; wait for it, " +
	"or stop it"}

// begin runs a job unless one of its queue runs.
func (s *jobs) begin(base context.Context, j *job, run func(context.Context)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.byQueue[j.Queue]; have != nil && have.State().Ended.IsZero() {
		return errRuns
	}
	ctx, stop := context.WithCancel(base)
	j.Begun, j.stop = time.Now(), stop
	s.byQueue[j.Queue] = j
	s.running.Go(func() {
		defer stop()
		run(ctx)
	})
	return nil
}

// interrupted begins the result in the audit of a job that ended with its console.
const interrupted = "interrupted"

// jobWork does the work of a job. It calls begin before its first change, and returns the error of begin.
type jobWork func(ctx context.Context, begin func() error) (deadletter.Result, error)

// runJob runs a replay or a drop, and writes the audit, unless nothing began: then no dead letter matched.
func (c *Console) runJob(ctx context.Context, j *job, run jobWork) {
	e := counter.AuditEntry{Actor: j.Actor, Verb: string(j.Verb), Subject: j.Filter.subject(), Reason: j.Reason,
		Result: ops.ResultBegun}
	began := false
	begin := func() error { // a change that the audit cannot keep is not made
		if began {
			return nil
		}
		if err := c.audit(ctx, j.Queue, e); err != nil {
			return fmt.Errorf("nothing was done: %w", err)
		}
		began = true
		return nil
	}
	done, err := guardedAsk(c, func() (deadletter.Result, error) { return run(ctx, begin) })
	e.Count, e.Result = int64(done.Done), j.result(done, err)
	if c.base.Err() != nil && err != nil {
		e.Result = interrupted + " by the end of the console: " + e.Result
	}
	var auditErr error
	if began {
		auditErr = c.audit(ctx, j.Queue, e)
	}
	j.update(func(s *jobState) {
		s.Ended, s.Done, s.Again, s.Result = time.Now(), done.Done, done.FailedAgain, e.Result
		s.OK = err == nil && len(done.FailedAgain) == 0
		if auditErr != nil {
			s.Result += "; the audit could not be written: " + auditErr.Error()
		}
	})
	c.changed(j.Queue)
}

func (j *job) result(r deadletter.Result, err error) string {
	parts := []string{fmt.Sprintf("%d of %d %s", r.Done, j.Of, done(j.Verb))}
	if r.Left > 0 {
		parts = append(parts, fmt.Sprintf("%d left in the dead-letter queue", r.Left))
	}
	if n := len(r.FailedAgain); n > 0 {
		parts = append(parts, fmt.Sprintf("%d failed again", n))
	}
	if n := len(r.Undecided); n > 0 {
		parts = append(parts, fmt.Sprintf("%d undecided: maybe done, maybe still in the dead-letter queue", n))
	}
	switch {
	case j.State().Stopped != "" && errors.Is(err, context.Canceled):
		parts = append(parts, "stopped by "+j.State().Stopped)
	case err != nil:
		parts = append(parts, err.Error())
	case r.RecordsErr != nil:
		parts = append(parts, "the store may not know all of it: "+r.RecordsErr.Error())
	}
	return strings.Join(parts, ", ")
}

var errNoDrop = formError("no directory for the files of a drop; start the console with --drop-dir, or set " +
	"Options.DropDir and Options.Encode")

// dropFile creates the file for the dead letters that a job drops. The page of the job then shows its name.
func (c *Console) dropFile(j *job) (*os.File, error) {
	name := fmt.Sprintf("%.80s-%s.ndjson", unsafe.ReplaceAllString(j.Queue, "_"),
		time.Now().UTC().Format("20060102T150405.000000Z"))
	file, err := os.OpenFile(filepath.Join(c.opts.DropDir, name), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		err = ops.SyncDir(c.opts.DropDir)
	}
	if err != nil {
		return file, fmt.Errorf("nothing is dropped: %w", err)
	}
	j.update(func(s *jobState) { s.File = name })
	return file, nil
}

// unsafe are the characters that a file name does not take from a queue's.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
