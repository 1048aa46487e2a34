package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/ops"
)

const (
	samples = 5
	// stopAfter is how many replayed messages may fail again.
	stopAfter = 5
	// watchFor is how long a replay watches whether the last messages fail again.
	watchFor = 2 * time.Second
)

// replayView is the page of a replay or a drop: its preview, or its progress.
type replayView struct {
	Verb   Verb
	Queue  string
	Filter filter
	Rate   string // of the form
	Job    *job   // under way, or the last one; nil: none
	State  jobState

	Count       int  // of the preview
	Partial     bool // more were not counted
	Whole       bool // everything in the dead-letter queue is meant, and no other queue shares it
	Samples     []*deadletter.Message
	Last        string              // audit id of the last replay or drop; the form sends it back
	Interrupted *counter.AuditEntry // a replay that did not report its end
	Resume      string              // address to go on with it
	Refused     string              // why it would be refused now
	Lanes       int                 // blocked ones: a replay or drop would lose their order
}

// verbOf returns VerbDrop for /drop, and VerbReplay for all others.
func verbOf(r *http.Request) Verb {
	if r.URL.Path == "/drop" {
		return VerbDrop
	}
	return VerbReplay
}

// jobPage previews a replay or a drop, or shows the one under way.
func (c *Console) jobPage(r *http.Request) (page, error) {
	verb, queue := verbOf(r), queueOf(r)
	f, err := filterOf(r.URL.Query())
	if err != nil {
		return page{}, err
	}
	v := replayView{Verb: verb, Queue: queue, Filter: f, Rate: r.PostFormValue("rate"), Job: c.jobs.of(queue)}
	if v.Job != nil {
		v.State = v.Job.State()
	}
	p := page{Screen: "replay", Queue: queue}
	if v.Job != nil && (v.State.Ended.IsZero() || r.URL.Query().Get("of") == "job") {
		p.Live = link("live", "screen", "replay", "queue", queue, "of", "job")
		p.View, p.Title = v, headlineOfJob(v)
		return p, nil
	}
	if isLive(r) {
		return p, refusedError{http.StatusNotFound, "the console was started again; reload the page"}
	}
	v.Job = nil
	if v.Lanes, err = c.blockedLanes(r.Context(), queue); err != nil {
		return p, err
	}
	if err := c.preview(r, &v); err != nil {
		return p, err
	}
	if err := c.findLast(r.Context(), &v); err != nil {
		return p, err
	}
	if v.Count > 0 && v.Lanes == 0 && visitorOf(r).Allowed.Has(verb) {
		if _, err := c.prepare(r.Context(), &job{Verb: verb, Queue: queue, Filter: f, Whole: v.Whole}, 0); err != nil {
			v.Refused = err.Error()
		}
	}
	p.View = v
	p.Title = fmt.Sprintf("%s: %s would be %s", shown(queue), plural(v.Count, "dead letter"), done(verb))
	return p, nil
}

// done names a verb as the state of a dead letter after it.
func done(v Verb) string { return map[Verb]string{VerbReplay: "replayed", VerbDrop: "dropped"}[v] }

func headlineOfJob(v replayView) string {
	if v.State.Ended.IsZero() {
		return fmt.Sprintf("%s: %s under way, %d of %d", shown(v.Queue), v.Job.Verb, v.State.Done, v.Job.Of)
	}
	return fmt.Sprintf("%s: %s ended, %d of %d %s", shown(v.Queue), v.Job.Verb, v.State.Done, v.Job.Of, done(v.Job.Verb))
}

// preview counts the dead letters that the filter picks, from the store's records.
func (c *Console) preview(r *http.Request, v *replayView) error {
	ctx, q := r.Context(), c.records(v.Queue)
	groups, err := q.Groups(ctx, ops.DeadQuery{Filter: v.Filter.Filter, Budget: countWithin / 4})
	if err != nil {
		return err
	}
	v.Count, v.Partial = groups.Count, groups.Partial
	if v.Whole = v.Filter.Everything() && c.broker.Alone(ctx, v.Queue); v.Whole { // there may be some without a record
		waiting, cancel := context.WithTimeout(ctx, c.patience.answer)
		defer cancel()
		if a := c.statusOf(v.Queue).get(waiting, liveEvery); a.Known && a.Err == nil && a.Value.Dead.Holds != nil {
			v.Count, v.Partial = *a.Value.Dead.Holds, false
		}
	}
	page, err := q.Dead(ctx, ops.DeadQuery{Filter: v.Filter.Filter, Limit: samples})
	v.Samples = page.Dead
	return err
}

// findLast looks for the last replay or drop, which may not have reported its end.
func (c *Console) findLast(ctx context.Context, v *replayView) error {
	log, err := c.store.AuditLog(ctx, c.opts.VHost, v.Queue, "", auditPage)
	if err != nil {
		return err
	}
	for _, e := range log {
		if e.Verb != string(VerbReplay) && e.Verb != string(VerbDrop) {
			continue
		}
		v.Last = e.ID
		if e.Result == ops.ResultBegun || strings.HasPrefix(e.Result, interrupted) {
			if f, err := subjectOf(e.Subject); err == nil {
				v.Interrupted, v.Resume = &e, f.Link(e.Verb, v.Queue)
			}
		}
		return nil
	}
	return nil
}

func (c *Console) begin(w http.ResponseWriter, r *http.Request) error {
	verb := verbOf(r)
	if !visitorOf(r).Allowed.Has(verb) {
		return forbidden(verb)
	}
	f, err := filterOf(r.URL.Query())
	if err != nil {
		return err
	}
	v := replayView{Verb: verb, Queue: queueOf(r), Filter: f}
	j := &job{Verb: verb, Queue: v.Queue, Filter: f, Reason: whyOf(r), Actor: visitorOf(r).Actor}
	j.Of, _ = strconv.Atoi(r.PostFormValue("count"))
	refuse := func(code int, wrong string) error { return c.refuse(w, r, code, wrong, c.jobPage) }
	rate, err := strconv.ParseFloat(cmp.Or(strings.TrimSpace(r.PostFormValue("rate")), "0"), 64)
	switch {
	case j.Reason == "":
		return refuse(http.StatusUnprocessableEntity, noReason)
	case err != nil || !(rate >= 0):
		return refuse(http.StatusUnprocessableEntity, "The rate must be a number of messages a second, or empty for no "+
			"limit.")
	}
	if err := c.refuseBlocked(r, j.Queue); err != nil {
		return err
	}
	if err := c.findLast(r.Context(), &v); err != nil {
		return err
	}
	if last, sent := r.PostForm["last"]; sent && last[0] != v.Last {
		return refuse(http.StatusConflict, "Another replay or drop of this queue began meanwhile, so nothing was done. The "+
			"page now shows the dead letters that are left.")
	}
	// The visitor agreed to the number of the form, so a larger number now does not raise it.
	if err := c.preview(r, &v); err != nil {
		return err
	}
	if j.Of, j.Whole = min(j.Of, v.Count), v.Whole; j.Of < 1 {
		return refuse(http.StatusUnprocessableEntity, "There are no such dead letters now.")
	}
	run, err := c.prepare(r.Context(), j, rate)
	if err != nil {
		return err
	}
	err = c.jobs.begin(c.base, j, func(ctx context.Context) {
		if err := c.guarded(func() { c.runJob(ctx, j, run) }); err != nil {
			j.update(func(s *jobState) { s.Ended, s.Result = time.Now(), "what was done is not known: "+err.Error() })
		}
	})
	if err == nil {
		goTo(w, link("replay", "queue", j.Queue, "of", "job"))
	}
	return err
}

const noReason = "Say why you do it; the audit keeps the text."

// prepare finds the dead-letter queue, and returns the work of the job. rate is in messages a second; 0: no limit.
func (c *Console) prepare(ctx context.Context, j *job, rate float64) (jobWork, error) {
	if j.Verb == VerbDrop && (c.opts.DropDir == "" || c.opts.Encode == nil) {
		return nil, errNoDrop
	}
	q, from, err := c.broker.DeadLetters(ctx, j.Queue, deadletter.Queue{Progress: j.progress})
	if err != nil {
		return nil, err
	}
	f := j.Filter.of(j.Queue)
	if j.Whole { // which needs no reading
		f = j.Filter.Filter
	}
	if err := q.Allows(f); err != nil {
		return nil, err
	}
	if j.Verb == VerbReplay {
		return func(ctx context.Context, begin func() error) (deadletter.Result, error) {
			return q.Replay(ctx, deadletter.Replay{
				Filter: f, Max: j.Of, Rate: rate, StopAfter: stopAfter, Watch: watchFor, OnBegin: begin,
			})
		}, nil
	}
	return func(ctx context.Context, begin func() error) (deadletter.Result, error) {
		var file *os.File
		done, err := q.Drop(ctx, f, j.Of, func(messages []*deadletter.Message) (err error) {
			// not before the first message: if none matches, or the audit refuses the job, there is no file
			if err = begin(); err == nil && file == nil {
				file, err = c.dropFile(j)
			}
			if err != nil {
				return err
			}
			return ops.Keep(file, c.opts.Encode, from, messages)
		})
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		return done, err
	}, nil
}

// stopJob stops the job of a queue. What it replayed or dropped stays so.
func (c *Console) stopJob(w http.ResponseWriter, r *http.Request) error {
	queue := queueOf(r)
	j := c.jobs.of(queue)
	switch {
	case j == nil:
		return errNoPage
	case !visitorOf(r).Allowed.Has(j.Verb):
		return forbidden(j.Verb)
	case r.URL.Query().Get("begun") != instant(j.Begun): // the visitor saw another job
		return refusedError{http.StatusConflict, "another replay or drop began meanwhile, so none was stopped"}
	}
	j.update(func(s *jobState) { s.Stopped = cmp.Or(s.Stopped, visitorOf(r).Actor, "a visitor") })
	j.stop()
	c.opts.Logger.Info("console: job stopped", "queue", queue, "actor", visitorOf(r).Actor)
	goTo(w, link("replay", "queue", queue, "of", "job"))
	return nil
}
