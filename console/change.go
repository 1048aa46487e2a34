package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/ops"
)

// change is a change of a queue or a message that a visitor asks for. Replay and drop have pages of their own.
type change struct {
	ops.Change
	Queue  string
	ID     string
	Number string // of retries, for a limit
	Reason string
	Anyway bool // despite the dangers that the page names
}

type changeView struct {
	change
	All    []change // the same for each message or queue; one, or those that were selected
	Action string   // address of the form
	Facts  []string // the effect on each
	Danger string   // the question before a dangerous change; Anyway answers it
}

const mostChanges = 100

// changesOf reads a change, of each message or queue that was selected. Queues and ids come from the address alone: a
// form cannot carry every byte.
func changesOf(r *http.Request) (all []change, err error) {
	q := r.URL.Query()
	right, undo := q.Get("verb"), q.Get("undo") != ""
	if right == ops.VerbResume {
		right, undo = ops.VerbPause, true
	}
	first := change{
		Number: strings.TrimSpace(r.FormValue("number")), Reason: whyOf(r),
		Anyway: r.PostFormValue("anyway") != "",
	}
	i := slices.IndexFunc(ops.Changes, func(c ops.Change) bool { return c.Right == right && c.Undo == undo })
	queues, ids := slices.Concat(q["queue"], picked(q["pick-queue"])), slices.Concat(q["id"], picked(q["pick-id"]))
	switch {
	case !visitorOf(r).Allowed.Has(Verb(right)):
		return nil, forbidden(Verb(right))
	case i < 0: // the audit would name another change than the one that is made
		return nil, formError("the address names no change of this page, or one that cannot be undone")
	}
	first.Change = ops.Changes[i]
	switch {
	case slices.Contains(ids, ""), len(ids) == 0 && (!first.OfQueue || first.OfMessage && q.Has("of")):
		return nil, formError("no message is selected")
	case len(queues) == 0:
		return nil, formError("no queue is selected")
	case len(queues) > 1 && first.OfMessage, len(ids) > 1 && !first.OfMessage, len(queues)*max(len(ids), 1) > mostChanges:
		return nil, formError(fmt.Sprintf("too much is selected; %s works on %d at most", first.Verb, mostChanges))
	}
	for _, queue := range queues {
		if err := broker.CheckName(queue); err != nil {
			return nil, formError("the queue in the address: " + err.Error())
		}
		ch := first
		ch.Queue = queue
		for _, id := range ids {
			ch.ID = id
			all = append(all, ch)
		}
		if len(ids) == 0 {
			all = append(all, ch)
		}
	}
	return all, nil
}

// picked are the names in checkboxes, which are escaped there: a form changes bytes that are no UTF-8. One that is not
// escaped rightly is empty, and an empty one is refused.
func picked(escaped []string) (names []string) {
	for _, text := range escaped {
		name, _ := url.QueryUnescape(text)
		names = append(names, name)
	}
	return names
}

// Do is the label of the button.
func (v changeView) Do() string {
	name := upper(v.Verb) + " "
	if v.Right == string(VerbLimit) {
		name += "of "
	}
	if len(v.All) > 1 {
		return name + v.subjects()
	}
	return name + shown(cmp.Or(v.ID, v.Queue))
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (c *Console) askChange(w http.ResponseWriter, r *http.Request) error {
	all, err := changesOf(r)
	if err != nil {
		return err
	}
	return c.showChange(w, r, http.StatusOK, "", changeView{change: all[0], All: all})
}

func (c *Console) showChange(w http.ResponseWriter, r *http.Request, code int, wrong string, v changeView) error {
	v.Action = "change?" + r.URL.Query().Encode()
	p := page{Screen: "change", Title: v.Title + ": " + v.subject(), Queue: v.Queue, Wrong: wrong}
	if len(v.All) > 1 {
		p.Title = v.Title + ": " + v.subjects()
		if v.ID == "" {
			p.Queue = ""
		}
	}
	queues, err := c.queuesOf(r.Context(), v.All)
	if err != nil {
		return err
	}
	for i, ch := range v.All {
		name := shown(cmp.Or(ch.ID, ch.Queue))
		if ch.SetsLimit() { // to a number that the visitor has not given yet
			v.Facts = append(v.Facts, name)
			continue
		}
		queues[i].Unconsumed = nil // the broker is asked once the visitor has given the reason
		switch plan, err := ch.Plan(r.Context(), queues[i], ops.Ask{ID: ch.ID}); {
		case err == nil:
			v.Facts = append(v.Facts, shown(plan.Text()))
		case len(v.All) == 1 && !errors.Is(err, ops.ErrNone):
			return err
		default:
			v.Facts = append(v.Facts, name+": "+shown(err.Error()))
		}
	}
	p.View = v
	c.render(w, r, code, p)
	return nil
}

// queuesOf returns the queue of each change. It reads all messages together.
func (c *Console) queuesOf(ctx context.Context, all []change) (queues []*ops.Queue, err error) {
	var ids []string
	for _, ch := range all {
		if ch.ID != "" && len(queues) > 0 { // messages are of one queue
			queues = append(queues, queues[0])
		} else {
			queues = append(queues, c.records(ch.Queue))
		}
		ids = append(ids, ch.ID)
	}
	if ids[0] != "" {
		err = queues[0].Read(ctx, ids)
	}
	return queues, err
}

func (ch change) subject() string {
	if ch.ID != "" {
		return shown(ch.ID) + " of " + shown(ch.Queue)
	}
	return shown(ch.Queue)
}

func (v changeView) subjects() string {
	if v.ID != "" {
		return plural(len(v.All), "message") + " of " + shown(v.Queue)
	}
	return plural(len(v.All), "queue")
}

// Back is the page that a visitor comes from.
func (v changeView) Back() string {
	if len(v.All) > 1 && v.ID == "" {
		return "./"
	}
	return link("queue", "queue", v.Queue)
}

// makeChange makes the changes one after the other, and responds with the changes that took effect.
func (c *Console) makeChange(w http.ResponseWriter, r *http.Request) error {
	all, err := changesOf(r)
	if err != nil {
		return err
	}
	v := changeView{change: all[0], All: all}
	wrong, ask := "", ops.Ask{Note: counter.Note{By: visitorOf(r).Actor, Why: v.Reason}}
	if n, err := strconv.Atoi(v.Number); v.SetsLimit() {
		if ask.MaxRetries = &n; err != nil || n < 0 || n > counter.MaxOverride {
			wrong = fmt.Sprintf("The number of retries must be 0 to %d, got %s.", counter.MaxOverride, shown(v.Number))
		}
	}
	if v.Reason == "" {
		wrong = noReason
	}
	if wrong != "" {
		return c.showChange(w, r, http.StatusUnprocessableEntity, wrong, v)
	}
	queues, err := c.queuesOf(r.Context(), all)
	if err != nil {
		return err
	}
	if v.Danger, err = c.dangers(r.Context(), queues, all, ask); err != nil {
		return c.showChange(w, r, codeOf(err), fmt.Sprintf("Nothing was changed: %s.", shown(err.Error())), v)
	}
	if v.Danger != "" {
		return c.showChange(w, r, http.StatusConflict, "", v)
	}
	res := result{OK: true}
	for i, ch := range all {
		q := queues[i]
		var warned error
		q.Warn = func(err error) { warned = err }
		text, err := ch.carryOut(r.Context(), q, ask)
		if err != nil {
			res.OK = false
			text = fmt.Sprintf("%s failed: %s.", ch.Verb, shown(err.Error()))
			if len(all) > 1 {
				text = ch.subject() + ": " + text
			}
		}
		if warned != nil {
			text += " " + upper(shown(warned.Error())) + "."
		}
		c.opts.Logger.Info("console: change", "verb", ch.Verb, "queue", ch.Queue, "id", ch.ID, "actor", ask.Note.By,
			"reason", ch.Reason, "result", text)
		res.Text = strings.TrimSpace(res.Text + " " + text)
		c.changed(ch.Queue)
	}
	back, query, _ := strings.Cut(v.Back(), "?")
	values, _ := url.ParseQuery(query)
	values.Set("result", c.results.put(res))
	goTo(w, back+"?"+values.Encode())
	return nil
}

// dangers returns the questions to ask before dangerous changes. The broker may dead-letter before a limit does, or
// delete a paused queue. A limit may dead-letter messages at their next step.
func (c *Console) dangers(ctx context.Context, queues []*ops.Queue, all []change, ask ops.Ask) (text string,
	err error) {
	if all[0].Anyway || !all[0].OfQueue {
		return "", nil
	}
	if ask.MaxRetries != nil { // of one queue
		if text, err = c.checkDeliveryLimit(ctx, all[0].Queue, *ask.MaxRetries); err != nil {
			return "", err
		}
	}
	for i, ch := range all {
		ask.ID = ch.ID
		if plan, err := ch.Plan(ctx, queues[i], ask); err == nil { // else the change itself fails
			text += " " + plan.Question(1)
		}
	}
	return strings.TrimSpace(text), nil
}

func (ch change) carryOut(ctx context.Context, q *ops.Queue, ask ops.Ask) (string, error) {
	if ch.Anyway {
		q.Unconsumed = nil
	}
	ask.ID = ch.ID
	plan, err := ch.Plan(ctx, q, ask)
	if errors.Is(err, ops.ErrNone) {
		return upper(shown(err.Error())) + ": nothing changed.", nil
	}
	if err == nil {
		err = plan.Do(ctx, q)
	}
	if err != nil {
		return "", err
	}
	return shown(plan.Text()) + ".", nil
}

func (ch change) SetsLimit() bool { return ch.Verb == ops.VerbSetLimit }

// checkDeliveryLimit says that the queue's delivery limit allows fewer retries, so the broker would dead-letter first.
func (c *Console) checkDeliveryLimit(ctx context.Context, queue string, retries int) (string, error) {
	found, err := c.broker.DeliveryLimit(ctx, inspect.Need{Queue: queue, MaxRetries: retries})
	for _, f := range found {
		if f.Severity == inspect.Error {
			return fmt.Sprintf("%s; %s. %s.", f.Seen, f.Impact, f.Fix), nil
		}
	}
	return "", err
}

// result is the effect of a change. The page that follows shows it.
type result struct {
	OK   bool
	Text string

	id string
}

const mostResults = 200

// results are the results of the latest changes, with ids that cannot be guessed.
type results struct {
	mu     sync.Mutex
	latest []result
}

func (s *results) put(r result) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.id = rand.Text()
	s.latest = append(s.latest[max(len(s.latest)+1-mostResults, 0):], r)
	return r.id
}

func (s *results) get(id string) *result {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.latest {
		if r.id == id {
			return &r
		}
	}
	return nil
}
