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

// changeView is a change that a visitor asks for: the same for each queue or message that was selected. Replay and drop
// have pages of their own.
type changeView struct {
	ops.Change
	All    []*planned // at least one
	Number string     // of retries, for a limit
	Reason string
	Anyway bool     // despite Danger
	Action string   // address of the form
	Facts  []string // the effect on each
	Danger string   // the question before a dangerous change; Anyway answers it
}

// planned is the change of one queue or message.
type planned struct {
	Queue, ID string

	at   *ops.Queue
	plan ops.Plan // nil: the form lacks something that the plan needs, or err says why there is none
	err  error

	warned error // beside the change, such as that the audit log lacks it
}

const mostChanges = 100

// changeOf reads a change. Queues and ids come from the address alone: a form cannot carry every byte.
func changeOf(r *http.Request) (*changeView, error) {
	q := r.URL.Query()
	right, undo := q.Get("verb"), q.Get("undo") != ""
	if right == ops.VerbResume {
		right, undo = ops.VerbPause, true
	}
	i := slices.IndexFunc(ops.Changes, func(c ops.Change) bool { return c.Right == right && c.Undo == undo })
	queues, ids := slices.Concat(q["queue"], picked(q["pick-queue"])), slices.Concat(q["id"], picked(q["pick-id"]))
	switch {
	case !visitorOf(r).Allowed.Has(Verb(right)):
		return nil, forbidden(Verb(right))
	case i < 0: // the audit would name another change than the one that is made
		return nil, formError("the address names no change of this page, or one that cannot be undone")
	}
	v := &changeView{Change: ops.Changes[i], Number: strings.TrimSpace(r.FormValue("number")), Reason: whyOf(r),
		Anyway: r.PostFormValue("anyway") != "", Action: "change?" + q.Encode()}
	switch {
	case slices.Contains(ids, ""), len(ids) == 0 && (!v.OfQueue || v.OfMessage && q.Has("of")):
		return nil, formError("no message is selected")
	case len(queues) == 0:
		return nil, formError("no queue is selected")
	case len(queues) > 1 && v.OfMessage, len(ids) > 1 && !v.OfMessage, len(queues)*max(len(ids), 1) > mostChanges:
		return nil, formError(fmt.Sprintf("too much is selected; %s works on %d at most", v.Verb, mostChanges))
	case len(ids) == 0:
		ids = []string{""}
	}
	for _, queue := range queues {
		if err := broker.CheckName(queue); err != nil {
			return nil, formError("the queue in the address: " + err.Error())
		}
		for _, id := range ids {
			v.All = append(v.All, &planned{Queue: queue, ID: id})
		}
	}
	return v, nil
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
func (v *changeView) Do() string {
	name := upper(v.Verb) + " "
	if v.Right == string(VerbLimit) {
		name += "of "
	}
	if len(v.All) > 1 {
		return name + v.subjects()
	}
	return name + v.All[0].name()
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (c *Console) askChange(w http.ResponseWriter, r *http.Request) error {
	v, err := changeOf(r)
	if err == nil {
		err = c.plan(r.Context(), v, ops.Ask{})
	}
	if err != nil {
		return err
	}
	return c.showChange(w, r, http.StatusOK, "", v)
}

// plan plans the changes. Without a note in ask the broker is not asked: the visitor has yet to give the reason.
func (c *Console) plan(ctx context.Context, v *changeView, ask ops.Ask) error {
	read := c.records(v.All[0].Queue) // messages are of one queue
	var ids []string
	for _, p := range v.All {
		ids = append(ids, p.ID)
	}
	if ids[0] != "" {
		if err := read.Read(ctx, ids); err != nil {
			return err
		}
	}
	for _, p := range v.All {
		at := *read
		if p.ID == "" {
			at = *c.records(p.Queue)
		}
		at.Warn = func(err error) { p.warned = err }
		if v.Anyway || ask.Note == (counter.Note{}) {
			at.Unconsumed = nil
		}
		if p.at, ask.ID = &at, p.ID; !v.SetsLimit() || ask.MaxRetries != nil {
			p.plan, p.err = v.Plan(ctx, p.at, ask)
		}
	}
	return nil
}

func (c *Console) showChange(w http.ResponseWriter, r *http.Request, code int, wrong string, v *changeView) error {
	p := page{Screen: "change", Title: v.Title + ": " + v.All[0].subject(), Queue: v.All[0].Queue, Wrong: wrong, View: v}
	if len(v.All) > 1 {
		p.Title = v.Title + ": " + v.subjects()
		if v.All[0].ID == "" {
			p.Queue = ""
		}
	}
	for _, one := range v.All {
		fact := one.name()
		switch {
		case one.err == nil && one.plan != nil:
			fact = shown(one.plan.Text())
		case one.err == nil:
		case len(v.All) == 1 && !errors.Is(one.err, ops.ErrNone):
			return one.err
		default:
			fact += ": " + shown(one.err.Error())
		}
		v.Facts = append(v.Facts, fact)
	}
	c.render(w, r, code, p)
	return nil
}

func (p *planned) name() string { return shown(cmp.Or(p.ID, p.Queue)) }

func (p *planned) subject() string {
	if p.ID != "" {
		return shown(p.ID) + " of " + shown(p.Queue)
	}
	return shown(p.Queue)
}

func (v *changeView) subjects() string {
	if v.All[0].ID != "" {
		return plural(len(v.All), "message") + " of " + shown(v.All[0].Queue)
	}
	return plural(len(v.All), "queue")
}

// Back is the page that a visitor comes from.
func (v *changeView) Back() string {
	if len(v.All) > 1 && v.All[0].ID == "" {
		return "./"
	}
	return link("queue", "queue", v.All[0].Queue)
}

// makeChange makes the changes one after the other, and responds with the changes that took effect.
func (c *Console) makeChange(w http.ResponseWriter, r *http.Request) error {
	v, err := changeOf(r)
	if err != nil {
		return err
	}
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
		ask = ops.Ask{}
	}
	if err = c.plan(r.Context(), v, ask); err != nil {
		return err
	}
	if wrong != "" {
		return c.showChange(w, r, http.StatusUnprocessableEntity, wrong, v)
	}
	if err = c.findDanger(r.Context(), v, ask); err != nil {
		return c.showChange(w, r, codeOf(err), fmt.Sprintf("Nothing was changed: %s.", shown(err.Error())), v)
	}
	if v.Danger != "" {
		return c.showChange(w, r, http.StatusConflict, "", v)
	}
	res := result{OK: true}
	for _, p := range v.All {
		text, err := p.do(r.Context())
		if err != nil {
			res.OK = false
			text = fmt.Sprintf("%s failed: %s.", v.Verb, shown(err.Error()))
			if len(v.All) > 1 {
				text = p.subject() + ": " + text
			}
		}
		if p.warned != nil {
			text += " " + upper(shown(p.warned.Error())) + "."
		}
		c.opts.Logger.Info("console: change", "verb", v.Verb, "queue", p.Queue, "id", p.ID, "actor", ask.Note.By,
			"reason", v.Reason, "result", text)
		res.Text = strings.TrimSpace(res.Text + " " + text)
		c.changed(p.Queue)
	}
	back, query, _ := strings.Cut(v.Back(), "?")
	values, _ := url.ParseQuery(query)
	values.Set("result", c.results.put(res))
	goTo(w, back+"?"+values.Encode())
	return nil
}

// findDanger finds the questions to ask before dangerous changes. The broker may dead-letter before a limit does, or
// delete a paused queue. A limit may dead-letter messages at their next step.
func (c *Console) findDanger(ctx context.Context, v *changeView, ask ops.Ask) (err error) {
	if v.Anyway || !v.OfQueue {
		return nil
	}
	if ask.MaxRetries != nil { // of one queue
		if v.Danger, err = c.checkDeliveryLimit(ctx, v.All[0].Queue, *ask.MaxRetries); err != nil {
			return err
		}
	}
	for _, p := range v.All {
		if p.err == nil { // else the change itself fails
			v.Danger = strings.TrimSpace(v.Danger + " " + p.plan.Question(1))
		}
	}
	return nil
}

// do makes the change, and returns its result.
func (p *planned) do(ctx context.Context) (string, error) {
	err := p.err
	if errors.Is(err, ops.ErrNone) {
		return upper(shown(err.Error())) + ": nothing changed.", nil
	}
	if err == nil {
		err = p.plan.Do(ctx, p.at)
	}
	if err != nil {
		return "", err
	}
	return shown(p.plan.Text()) + ".", nil
}

func (v *changeView) SetsLimit() bool { return v.Verb == ops.VerbSetLimit }

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
