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
	Anyway bool // although the queue's own delivery limit is lower, or a pause may delete the queue
}

// changeView is the page that asks for the reason.
type changeView struct {
	change
	All    []change // the same for each message or queue; one, or those that were selected
	Action string   // address of the form
	Facts  []string // the present state of each
	Refuse string   // by the check of the delivery limit, or of a pause; Anyway overrules it
}

// mostChanges are made at once.
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

// askChange shows the present state, and asks for the reason.
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
	for _, ch := range v.All {
		now, err := ch.Describe(r.Context(), c.records(ch.Queue), ch.ID)
		switch {
		case err != nil && len(v.All) == 1 && !errors.Is(err, ops.ErrNone):
			return err
		case err != nil:
			now = err.Error()
		}
		if now = shown(now); len(v.All) > 1 && (err != nil || ch.Now != nil) { // else it begins with the name
			now = shown(cmp.Or(ch.ID, ch.Queue)) + ": " + now
		}
		v.Facts = append(v.Facts, now)
	}
	p.View = v
	c.render(w, r, code, p)
	return nil
}

// subject is the message or the queue that a change is about.
func (ch change) subject() string {
	if ch.ID != "" {
		return shown(ch.ID) + " of " + shown(ch.Queue)
	}
	return shown(ch.Queue)
}

// subjects says how many messages or queues were selected.
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
	wrong := ""
	if n, err := strconv.Atoi(v.Number); v.SetsLimit() && (err != nil || n < 0 || n > counter.MaxOverride) {
		wrong = fmt.Sprintf("The number of retries must be 0 to %d, got %s.", counter.MaxOverride, shown(v.Number))
	}
	if v.Reason == "" {
		wrong = noReason
	}
	if wrong != "" {
		return c.showChange(w, r, http.StatusUnprocessableEntity, wrong, v)
	}
	if v.Refuse = c.dangers(r.Context(), all); v.Refuse != "" {
		return c.showChange(w, r, http.StatusConflict, "", v)
	}
	res := result{OK: true}
	for i, ch := range all {
		q := c.records(ch.Queue)
		var unwritten error
		q.Warn = func(err error) { unwritten = err }
		text, err := c.carryOut(r.Context(), q, ch, visitorOf(r).Actor)
		var tight refusedError // by the check of the delivery limit
		switch {
		case errors.As(err, &tight) && i == 0: // the limit is that of the queue, so it refuses all or none
			v.Refuse = err.Error()
			return c.showChange(w, r, http.StatusConflict, "", v)
		case err != nil:
			res.OK = false
			text = fmt.Sprintf("%s failed: %s.", ch.Verb, shown(err.Error()))
			if len(all) > 1 {
				text = ch.subject() + ": " + text
			}
		}
		if unwritten != nil {
			text += " The audit could not be written: " + shown(unwritten.Error())
		}
		res.Text = strings.TrimSpace(res.Text + " " + text)
		c.changed(ch.Queue)
	}
	back, query, _ := strings.Cut(v.Back(), "?")
	values, _ := url.ParseQuery(query)
	values.Set("result", c.results.put(res))
	goTo(w, back+"?"+values.Encode())
	return nil
}

// dangers has the questions of pauses after which the broker may delete a queue.
func (c *Console) dangers(ctx context.Context, all []change) (text string) {
	if all[0].Verb != ops.VerbPause || all[0].Anyway {
		return ""
	}
	for _, ch := range all {
		if plan, err := ch.Plan(ctx, c.records(ch.Queue), ops.Ask{}); err == nil { // else the change itself fails
			text += " " + plan.Question(1)
		}
	}
	return strings.TrimSpace(text)
}

// carryOut makes a change and returns its result as text.
func (c *Console) carryOut(ctx context.Context, q *ops.Queue, ch change, actor string) (string, error) {
	ask := ops.Ask{ID: ch.ID, Note: counter.Note{By: actor, Why: ch.Reason}}
	if ch.SetsLimit() {
		n, _ := strconv.Atoi(ch.Number) // makeChange has checked it
		if err := c.checkDeliveryLimit(ctx, ch, n); err != nil {
			return "", err
		}
		ask.MaxRetries = &n
	}
	if ch.Anyway {
		q.Unconsumed = nil
	}
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

// checkDeliveryLimit refuses more retries than the queue's delivery limit allows: the broker would dead-letter first.
func (c *Console) checkDeliveryLimit(ctx context.Context, ch change, retries int) error {
	if ch.Anyway {
		return nil
	}
	found, err := c.broker.DeliveryLimit(ctx, inspect.Need{Queue: ch.Queue, MaxRetries: retries})
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.Severity == inspect.Error {
			return refusedError{http.StatusConflict, fmt.Sprintf("%s; %s. %s", f.Seen, f.Impact, f.Fix)}
		}
	}
	return nil
}

// result is the effect of a change. The page that follows shows it.
type result struct {
	OK   bool
	Text string

	id string
}

// mostResults bounds the results that are kept.
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
