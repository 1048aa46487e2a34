package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/ops"
)

const (
	// lanesPerPage is how many blocked lanes a page lists.
	lanesPerPage = 100
	// lanesOfQueue is how many the page of their queue lists.
	lanesOfQueue = 5
)

// laneList are blocked lanes, longest blocked first.
type laneList struct {
	Queue string
	Lanes []ops.BlockedLane
	Of    int // that are blocked
	Now   time.Time
}

// lanesView is the content of the page of blocked lanes.
type lanesView struct {
	laneList
	From int
	More string // URL of those that are blocked for less long
}

// First is the number of the first lane of the page.
func (v lanesView) First() int { return v.From + 1 }

// Last is the number of the last lane of the page.
func (v lanesView) Last() int { return v.From + len(v.Lanes) }

// BlockedFor is for how long a lane is blocked.
func (v laneList) BlockedFor(l ops.BlockedLane) string { return rough(max(v.Now.Sub(l.Since), 0)) }

// Blocked is how many messages of a lane wait for the one that blocks it.
func (laneList) Blocked(l ops.BlockedLane) int { return l.Messages - 1 }

// lanes returns the blocked lanes of a queue, or of its partitions, and how many are blocked. It fails while the
// partitions are not known, and waits for them as long as for any question to the broker.
func (c *Console) lanes(ctx context.Context, queue string, skip, most int) ([]ops.BlockedLane, int, error) {
	a := c.statusOf(queue).get(ctx, time.Minute)
	if !a.Known && !errors.Is(a.Err, broker.ErrNotFound) {
		return nil, 0, fmt.Errorf("its blocked lanes are not known: %w", cmp.Or(a.Err, context.DeadlineExceeded))
	}
	return c.lanesOf(ctx, queue, a.Value.Status, skip, most)
}

func (c *Console) lanesOf(ctx context.Context, queue string, s ops.Status, skip, most int) ([]ops.BlockedLane, int,
	error) {
	names := []string{queue}
	for _, p := range s.Partitions {
		names = append(names, p.Queue)
	}
	return ops.Lanes(ctx, c.store, c.opts.VHost, names, skip, most)
}

// lanesPage shows the blocked lanes of a queue.
func (c *Console) lanesPage(r *http.Request) (_ page, err error) {
	queue := queueOf(r)
	from, _ := strconv.Atoi(r.FormValue("from"))
	v := lanesView{laneList: laneList{Queue: queue, Now: time.Now()}, From: max(from, 0)}
	if v.Lanes, v.Of, err = c.lanes(r.Context(), queue, v.From, lanesPerPage); err != nil {
		return page{}, err
	}
	if next := v.Last(); next < v.Of && len(v.Lanes) > 0 {
		v.More = link("lanes", "queue", queue, "from", strconv.Itoa(next))
	}
	title := shown(queue) + ": no lane is blocked"
	if v.Of > 0 {
		title = fmt.Sprintf("%s: %s", shown(queue), plural(v.Of, "blocked lane"))
	}
	if v.From == 0 && len(v.Lanes) > 0 {
		title += ", one for " + v.BlockedFor(v.Lanes[0])
	}
	return page{
		Screen: "lanes", Queue: queue, View: v, Title: title,
		Live: link("live", "screen", "lanes", "queue", queue, "from", strconv.Itoa(v.From)),
	}, nil
}

// laneChange is a change of a blocked lane that a visitor asks for: replay it, release it without the message that
// blocks it, or drop all its messages.
type laneChange struct {
	Queue   string
	At      string // Queue, or the partition of it that has the lane
	Name    string
	Verb    string // in the audit, and in an address
	Missing bool   // of a release or a drop: also give up messages that are not in the dead-letter queue

	first counter.Position // of the message that blocks the lane; if another blocks it by now, the change is refused
}

// laneView is the page that asks for the reason.
type laneView struct {
	laneChange
	Messages int
	By       string // id of the message that blocks the lane, if it is a dead letter with an id
	Dead     bool   // it is a dead letter; else it was replayed, and is not handled yet
	First    string // its position, which a form carries
}

// laneOf reads a change. Like the queue, the lane is in the address alone, and may be any text.
func laneOf(r *http.Request) (l laneChange, err error) {
	q := r.URL.Query()
	l.Queue = queueOf(r)
	if l.At = cmp.Or(q.Get("at"), l.Queue); l.At != l.Queue && !broker.IsPartition(l.At, l.Queue) {
		return l, formError("the address names a partition of another queue")
	}
	l.Name, l.Verb = q.Get("lane"), q.Get("verb")
	l.Missing = l.Drops() && r.PostFormValue("missing") != ""
	needs, known := laneVerbs[l.Verb]
	if !known {
		return l, formError("the address does not say whether to replay, to release or to drop the lane")
	}
	for _, verb := range needs {
		if !visitorOf(r).Allowed.Has(verb) {
			return l, forbidden(verb)
		}
	}
	return l, nil
}

// laneVerbs are the changes, and the verbs that a visitor needs for each.
var laneVerbs = map[string]Verbs{
	ops.VerbReplay:  {VerbReplay},
	ops.VerbRelease: {VerbDrop, VerbReplay},
	ops.VerbDrop:    {VerbDrop},
}

// Drops reports whether the change drops messages, to a file.
func (l laneChange) Drops() bool { return l.Verb != ops.VerbReplay }

// Link is the address of the change.
func (l laneChange) Link() string {
	return link("lane", "queue", l.Queue, "at", l.At, "lane", l.Name, "verb", l.Verb)
}

// lanePage previews a change of a lane.
func (c *Console) lanePage(r *http.Request) (page, error) {
	l, err := laneOf(r)
	if err != nil {
		return page{}, err
	}
	v := laneView{laneChange: l}
	state, err := c.store.Lane(r.Context(), c.opts.VHost, l.At, l.Name)
	if err != nil {
		return page{}, err
	}
	first := state.First()
	v.By, v.Dead = state.Dead()[first.Number]
	v.Messages, v.First = state.Messages, first.String()
	return page{Screen: "lane", Queue: l.Queue, Title: fmt.Sprintf("%s: %s the lane %s", shown(l.Queue), l.Verb,
		brief(shown(l.Name))), View: v}, nil
}

// beginLane starts a change of a lane.
func (c *Console) beginLane(w http.ResponseWriter, r *http.Request) error {
	l, err := laneOf(r)
	if err != nil {
		return err
	}
	j := &job{Verb: laneVerbs[l.Verb][0], Queue: l.Queue, Lane: &l, Reason: whyOf(r),
		Actor: visitorOf(r).Actor}
	l.first = counter.ParsePosition(r.PostFormValue("plan"))
	state, err := c.store.Lane(r.Context(), c.opts.VHost, l.At, l.Name)
	switch {
	case err != nil:
		return err
	case j.Reason == "":
		return c.refuse(w, r, http.StatusUnprocessableEntity, noReason, c.lanePage)
	case state.First() != l.first:
		return c.refuse(w, r, http.StatusConflict, "Another message blocks the lane now, so nothing was done. The page "+
			"now shows the change that would be made.", c.lanePage)
	}
	j.Of = state.Messages
	run, err := c.prepare(r.Context(), j, 0)
	if err != nil {
		return err
	}
	return c.start(w, j, run)
}

// change changes the lane. It writes the messages that it drops to the file.
func (l laneChange) change(ctx context.Context, j *job, q deadLetters, store deadletter.Lanes, file *keeper) (outcome,
	error) {
	lane := deadletter.Lane{Queue: l.At, Name: l.Name, Store: store, First: l.first, Missing: l.Missing, Keep: file.keep}
	lane.Progress = func(open int) {
		j.update(func(s *jobState) {
			s.Doing = fmt.Sprintf("waiting for the consumer: %s of the lane left", plural(open, "message"))
			s.Done = max(j.Of-open, 0)
		})
	}
	do := map[string]func(context.Context, deadletter.Lane) (deadletter.LaneResult, error){
		ops.VerbReplay: q.ReplayLane, ops.VerbDrop: q.DropLane, ops.VerbRelease: q.ReleaseLane,
	}[l.Verb]
	result, err := do(ctx, lane)
	return outcomeOfLane(l.Verb, result), laneAdvice(file.end(err))
}

func outcomeOfLane(verb string, r deadletter.LaneResult) outcome {
	state := "the lane is still blocked"
	if r.Released {
		state = "the lane is released"
	}
	return outcome{Done: r.Replayed + r.Dropped, Parts: append([]string{state}, ops.LaneParts(verb, r)...)}
}

// laneAdvice says what to do next.
func laneAdvice(err error) error {
	for is, advice := range map[error]string{
		deadletter.ErrLaneFailed:  "fix its cause and replay the lane again, or release the lane without it",
		deadletter.ErrLaneMissing: "if it expired or another program took it, release or drop the lane, and give it up",
		deadletter.ErrLaneWaiting: "check that a consumer runs and the queue is not paused",
		deadletter.ErrLaneBusy:    "pause their publishers, then replay the lane again",
	} {
		if errors.Is(err, is) {
			return fmt.Errorf("%w; %s", err, advice)
		}
	}
	return err
}

// refuseBlocked refuses to take the dead letters of a queue out of the order of its blocked lanes.
func (c *Console) refuseBlocked(r *http.Request, queue string) error {
	_, held, err := c.lanes(r.Context(), queue, 0, 0)
	if err == nil && held > 0 {
		err = refusedError{http.StatusConflict, fmt.Sprintf("queue %s has %s, whose dead letters would lose their order; "+
			"replay, release or drop each lane from the page of lanes", shown(queue), plural(held, "blocked lane"))}
	}
	return err
}
