package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/internal/records"
)

// change is what a visitor is about to change in a queue or a message. Replay and drop have pages of their own.
type change struct {
	Verb   Verb
	Queue  string
	ID     string
	Undo   bool   // limit: clear it; pause: resume
	Number string // of retries, for limit
	Reason string
	Anyway bool // although the queue's own delivery limit is lower

	number int
	note   counter.Note
}

// changeView is the page that asks for the reason.
type changeView struct {
	change
	All    []change // the same for each message or queue; one, or those that were selected
	Action string   // address of the form
	Facts  []string // what is so now
	Wrong  string
	Refuse string // by the check of the delivery limit; Anyway overrules it
}

var titles = map[Verb]string{
	VerbReset: "Forget the failed attempts of a message", VerbSkip: "Dead-letter a message at its next step",
	VerbLimit: "Set the limit", VerbPause: "Pause the consumers of a queue",
}

var undoTitles = map[Verb]string{VerbLimit: "Clear the limit", VerbPause: "Resume the consumers of a queue"}

// mostChanges are made at once.
const mostChanges = 100

// several are the verbs that may be used on several messages of a queue, or on several queues.
var (
	severalMessages = []Verb{VerbLimit, VerbReset, VerbSkip}
	severalQueues   = []Verb{VerbPause}
)

// changesOf reads a change, of each message or queue that was selected. Queues and ids come from the address alone: a
// form cannot carry every byte.
func changesOf(r *http.Request) (all []change, err error) {
	q := r.URL.Query()
	first := change{
		Verb: Verb(q.Get("verb")), Undo: q.Get("undo") != "",
		Number: strings.TrimSpace(r.FormValue("number")), Reason: strings.TrimSpace(r.PostFormValue("why")),
		Anyway: r.PostFormValue("anyway") != "",
	}
	if first.Verb == records.VerbResume {
		first.Verb, first.Undo = VerbPause, true
	}
	queues, ids := slices.Concat(q["queue"], picked(q["pick-queue"])), slices.Concat(q["id"], picked(q["pick-id"]))
	switch {
	case !visitorOf(r).Allowed.Has(first.Verb):
		return nil, forbiddenError{first.Verb}
	case titles[first.Verb] == "":
		return nil, formError{"the address names no verb of this page"}
	case first.Undo && undoTitles[first.Verb] == "": // the audit would name another change than the one that is made
		return nil, formError{"only a limit and a pause can be undone"}
	case slices.Contains(severalMessages, first.Verb) && (len(ids) == 0 && (first.Verb != VerbLimit || q.Has("of")) ||
		slices.Contains(ids, "")):
		return nil, formError{"no message is selected"}
	case len(queues) == 0:
		return nil, formError{"no queue is selected"}
	case len(queues) > 1 && !slices.Contains(severalQueues, first.Verb), len(ids) > 1 && !slices.Contains(severalMessages,
		first.Verb), len(queues)*max(len(ids), 1) > mostChanges:
		return nil, formError{fmt.Sprintf("too much is selected; %s works on %d at most", first.Verb, mostChanges)}
	}
	for _, queue := range queues {
		if err := queueinfo.CheckName(queue); err != nil {
			return nil, formError{"the queue in the address: " + err.Error()}
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

// Title is what the change does.
func (ch change) Title() string {
	if ch.Undo {
		return cmp.Or(undoTitles[ch.Verb], titles[ch.Verb])
	}
	return titles[ch.Verb]
}

// act begins the label of the button.
func (ch change) act() string {
	name := upper(ch.Name()) + " "
	if ch.Verb == VerbLimit {
		name += "of "
	}
	return name
}

// Do is the label of the button.
func (v changeView) Do() string {
	if len(v.All) > 1 {
		return v.act() + v.subjects()
	}
	return v.act() + shown(cmp.Or(v.ID, v.Queue))
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Name is what the audit calls the change.
func (ch change) Name() string {
	switch {
	case ch.Undo && ch.Verb == VerbPause:
		return records.VerbResume
	case ch.Undo:
		return records.VerbClearLimit
	case ch.Verb == VerbLimit:
		return records.VerbSetLimit
	}
	return string(ch.Verb)
}

// askChange shows what is so now, and asks for the reason.
func (c *Console) askChange(w http.ResponseWriter, r *http.Request) {
	all, err := changesOf(r)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.showChange(w, r, http.StatusOK, changeView{change: all[0], All: all})
}

func (c *Console) showChange(w http.ResponseWriter, r *http.Request, code int, v changeView) {
	ctx, cancel := c.brieflyAsked(r)
	defer cancel()
	v.Action = "change?" + r.URL.Query().Encode()
	p := page{Screen: "change", Title: v.Title() + ": " + v.subject(), Queue: v.Queue}
	var err error
	if len(v.All) == 1 {
		v.Facts, err = c.facts(ctx, v.change)
	} else {
		p.Title, v.Facts = v.Title()+": "+v.subjects(), c.explainEach(ctx, v.All)
		if v.ID == "" {
			p.Queue = ""
		}
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	p.View = v
	c.render(w, r, code, p)
}

// subject is what one change is about.
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

// explainEach returns, for each selected message or queue, its present state or the reason why it cannot be changed.
func (c *Console) explainEach(ctx context.Context, all []change) (facts []string) {
	for _, ch := range all {
		now, err := c.facts(ctx, ch)
		if err != nil {
			now = []string{shown(err.Error())}
		}
		facts = append(facts, shown(cmp.Or(ch.ID, ch.Queue))+": "+now[0])
	}
	return facts
}

// makeChange makes the changes one after the other, and responds with the changes that took effect.
func (c *Console) makeChange(w http.ResponseWriter, r *http.Request) {
	all, err := changesOf(r)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	v := changeView{change: all[0], All: all}
	res := result{OK: true}
	ctx, cancel := c.brieflyAsked(r)
	defer cancel()
	for i, ch := range all {
		if v.Wrong = ch.check(); v.Wrong != "" {
			c.showChange(w, r, http.StatusUnprocessableEntity, v)
			return
		}
		ch.note = counter.Note{By: visitorOf(r).Actor, Why: ch.Reason}
		q := c.records(ch.Queue)
		var unwritten error
		q.Warn = func(err error) { unwritten = err }
		text, err := c.carryOut(ctx, q, ch)
		var tight limitError
		switch {
		case errors.As(err, &tight) && i == 0: // the limit is that of the queue, so it refuses all or none
			v.Refuse = err.Error()
			c.showChange(w, r, http.StatusConflict, v)
			return
		case err != nil:
			res.OK = false
			text = fmt.Sprintf("%s failed: %s.", ch.Name(), shown(err.Error()))
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
}

// check returns what is wrong with a form.
func (ch *change) check() string {
	if ch.Reason == "" {
		return noReason
	}
	if ch.Verb != VerbLimit || ch.Undo {
		return ""
	}
	n, err := strconv.Atoi(ch.Number)
	if err != nil || n < 0 || n > counter.MaxOverride {
		return fmt.Sprintf("The number of retries must be 0 to %d, got %s.", counter.MaxOverride, shown(ch.Number))
	}
	ch.number = n
	return ""
}
