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

// replayView is the page of a replay or a drop.
type replayView struct {
	Job   *job // under way, or the last one; one that has not Begun is a preview
	State jobState
	Rate  string // of the form

	Partial     bool // Job.Of is too low: not all could be counted in time
	Samples     []*deadletter.Message
	Last        string              // audit id of the last replay or drop; the form sends it back
	Interrupted *counter.AuditEntry // a replay that did not report its end
	Resume      string              // address to go on with it
	Lanes       int                 // blocked ones: a replay or drop would lose their order
	Refused     error               // why the job would be refused now

	run jobWork
}

// jobOf reads the job that the address and the form ask for.
func jobOf(r *http.Request) (*job, error) {
	f, err := filterOf(r.URL.Query())
	j := &job{Verb: VerbReplay, Queue: queueOf(r), Filter: f, Reason: whyOf(r), Actor: visitorOf(r).Actor}
	if r.URL.Path == "/drop" {
		j.Verb = VerbDrop
	}
	return j, err
}

// jobPage previews a replay or a drop, or shows the one under way.
func (c *Console) jobPage(r *http.Request) (page, error) {
	j, err := jobOf(r)
	if err != nil {
		return page{}, err
	}
	p := page{Screen: "replay", Queue: j.Queue}
	if last := c.jobs.of(j.Queue); last != nil {
		v := replayView{Job: last, State: last.State()}
		if v.State.Ended.IsZero() || r.URL.Query().Get("of") == "job" {
			p.Live = link("live", "screen", "replay", "queue", j.Queue, "of", "job")
			p.View, p.Title = v, headlineOfJob(v)
			return p, nil
		}
	}
	if isLive(r) {
		return p, refusedError{http.StatusNotFound, "the console was started again; reload the page"}
	}
	v, err := c.preview(r, j, 0)
	p.View = v
	p.Title = fmt.Sprintf("%s: %s would be %s", shown(j.Queue), plural(j.Of, "dead letter"), done(j.Verb))
	return p, err
}

// done names a verb as the state of a dead letter after it.
func done(v Verb) string { return map[Verb]string{VerbReplay: "replayed", VerbDrop: "dropped"}[v] }

func headlineOfJob(v replayView) string {
	j, state, of := v.Job, "under way", ""
	if !v.State.Ended.IsZero() {
		state, of = "ended", " "+done(j.Verb)
	}
	return fmt.Sprintf("%s: %s %s, %d of %d%s", shown(j.Queue), j.Verb, state, v.State.Done, j.Of, of)
}

// preview counts the dead letters that the filter of a job picks, from the store's records, and finds why the job would
// be refused. rate is in messages a second; 0: no limit.
func (c *Console) preview(r *http.Request, j *job, rate float64) (v replayView, err error) {
	ctx, q := r.Context(), c.records(j.Queue)
	v = replayView{Job: j, Rate: r.PostFormValue("rate")}
	if v.Lanes, err = c.blockedLanes(ctx, j.Queue); err != nil {
		return v, err
	}
	groups, err := q.Groups(ctx, ops.DeadQuery{Filter: j.Filter.Filter, Budget: countWithin / 4})
	if err != nil {
		return v, err
	}
	j.Of, v.Partial = groups.Count, groups.Partial
	if j.Whole = j.Filter.Everything() && c.broker.Alone(ctx, j.Queue); j.Whole { // there may be some without a record
		waiting, cancel := context.WithTimeout(ctx, c.patience.answer)
		defer cancel()
		if a := c.statusOf(j.Queue).get(waiting, liveEvery); a.Known && a.Err == nil && a.Value.Dead.Holds != nil {
			j.Of, v.Partial = *a.Value.Dead.Holds, false
		}
	}
	page, err := q.Dead(ctx, ops.DeadQuery{Filter: j.Filter.Filter, Limit: samples})
	if v.Samples = page.Dead; err == nil {
		err = c.findLast(ctx, &v)
	}
	if v.Lanes > 0 {
		v.Refused = refusedError{http.StatusConflict, fmt.Sprintf("queue %s has %s, whose dead letters would lose their "+
			"order; strikes lane replays, releases or drops each lane", shown(j.Queue), plural(v.Lanes, "blocked lane"))}
	} else if j.Of > 0 && visitorOf(r).Allowed.Has(j.Verb) {
		v.run, v.Refused = c.prepare(ctx, j, rate)
	}
	return v, err
}

// findLast looks for the last replay or drop, which may not have reported its end.
func (c *Console) findLast(ctx context.Context, v *replayView) error {
	log, err := c.store.AuditLog(ctx, c.opts.VHost, v.Job.Queue, "", auditPage)
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
				v.Interrupted, v.Resume = &e, f.Link(e.Verb, v.Job.Queue)
			}
		}
		return nil
	}
	return nil
}

func (c *Console) begin(w http.ResponseWriter, r *http.Request) error {
	j, err := jobOf(r)
	if !visitorOf(r).Allowed.Has(j.Verb) {
		return forbidden(j.Verb)
	}
	if err != nil {
		return err
	}
	refuse := func(code int, wrong string) error { return c.refuse(w, r, code, wrong, c.jobPage) }
	rate, err := strconv.ParseFloat(cmp.Or(strings.TrimSpace(r.PostFormValue("rate")), "0"), 64)
	switch {
	case j.Reason == "":
		return refuse(http.StatusUnprocessableEntity, noReason)
	case err != nil || !(rate >= 0):
		return refuse(http.StatusUnprocessableEntity, "The rate must be a number of messages a second, or empty for no "+
			"limit.")
	}
	v, err := c.preview(r, j, rate)
	if err != nil {
		return err
	}
	if last, sent := r.PostForm["last"]; sent && last[0] != v.Last {
		return refuse(http.StatusConflict, "Another replay or drop of this queue began meanwhile, so nothing was done. The "+
			"page now shows the dead letters that are left.")
	}
	// The visitor agreed to the number of the form, so a larger number now does not raise it.
	agreed, _ := strconv.Atoi(r.PostFormValue("count"))
	switch j.Of = min(agreed, j.Of); {
	case v.Refused != nil:
		return v.Refused
	case j.Of < 1:
		return refuse(http.StatusUnprocessableEntity, "There are no such dead letters now.")
	}
	err = c.jobs.begin(c.base, j, func(ctx context.Context) {
		if err := c.guarded(func() { c.runJob(ctx, j, v.run) }); err != nil {
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
