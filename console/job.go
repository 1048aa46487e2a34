package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
)

// job is a replay or a drop under way, or the last one of a queue. It outlives the request that began it.
type job struct {
	Verb   Verb
	Queue  string
	Filter filter
	Of     int // dead letters at the preview; no more are taken
	Reason string
	Actor  string
	Begun  time.Time

	mu   sync.Mutex
	now  jobState
	stop context.CancelFunc
}

// jobState is how far a job is.
type jobState struct {
	Doing   string
	Done    int
	Ended   time.Time // zero: it runs
	Result  string
	OK      bool
	Again   []string // failed again
	File    string   // of a drop
	Stopped bool     // by an operator
}

// State returns how far the job is.
func (j *job) State() jobState {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now
}

func (j *job) update(f func(*jobState)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.now)
}

// progress notes how far a replay or a drop is.
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

func newJobs() *jobs { return &jobs{byQueue: map[string]*job{}} }

// of returns the job of a queue that runs, or that ran last; nil: none.
func (s *jobs) of(queue string) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byQueue[queue]
}

// errRuns refuses a second job of a queue.
var errRuns = errors.New("a replay or a drop of this queue is under way; wait for it, or stop it")

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

func (s *jobs) wait() { s.running.Wait() }

// begun is the result in the audit while a job runs, or if its console was killed. interrupted begins the result of a job that ended
// with its console.
const (
	begun       = "begun"
	interrupted = "interrupted"
)

// runJob runs a replay or a drop to its end, and writes the audit.
func (c *Console) runJob(ctx context.Context, j *job, run func(context.Context) (deadletter.Result, error)) {
	e := counter.AuditEntry{Actor: j.Actor, Verb: string(j.Verb), Subject: j.Filter.subject(), Reason: j.Reason, Result: begun}
	if err := c.audit(ctx, j.Queue, e); err != nil { // a change that the audit cannot keep is not made
		j.update(func(s *jobState) { s.Ended, s.Result = time.Now(), "nothing was done: "+err.Error() })
		return
	}
	done, err := run(ctx)
	e.Count, e.Result = int64(done.Done), j.result(done, err)
	if c.base.Err() != nil && err != nil {
		e.Result = interrupted + " by the end of the console: " + e.Result
	}
	auditErr := c.audit(ctx, j.Queue, e)
	j.update(func(s *jobState) {
		s.Ended, s.Done, s.Again, s.Result, s.OK = time.Now(), done.Done, done.FailedAgain, e.Result, err == nil && len(done.FailedAgain) == 0
		if auditErr != nil {
			s.Result += "; the audit could not be written: " + auditErr.Error()
		}
	})
	c.changed(j.Queue)
}

// result says what a job did.
func (j *job) result(done deadletter.Result, err error) string {
	parts := []string{fmt.Sprintf("%d of %d %s", done.Done, j.Of, map[Verb]string{VerbReplay: "replayed", VerbDrop: "dropped"}[j.Verb])}
	if done.Left > 0 {
		parts = append(parts, fmt.Sprintf("%d left in the dead-letter queue", done.Left))
	}
	if n := len(done.FailedAgain); n > 0 {
		parts = append(parts, fmt.Sprintf("%d failed again", n))
	}
	if n := len(done.Undecided); n > 0 {
		parts = append(parts, fmt.Sprintf("%d undecided: maybe done, maybe still in the dead-letter queue", n))
	}
	switch {
	case j.State().Stopped && errors.Is(err, context.Canceled):
		parts = append(parts, "stopped by an operator")
	case err != nil:
		parts = append(parts, err.Error())
	case done.RecordsErr != nil:
		parts = append(parts, "the store may not know all of it: "+done.RecordsErr.Error())
	}
	return strings.Join(parts, ", ")
}
