package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/records"
)

// change is what a visitor is about to change in a queue or a message. Replay and drop have pages of their own.
type change struct {
	Verb   Verb
	Queue  string
	ID     string
	Undo   bool   // limit: clear it; pause: resume
	Number string // of attempts for grant, of retries for limit
	Reason string
	Anyway bool   // although the queue's own delivery limit is lower
	Kind   string // repair: type of a missing exchange; empty: not chosen
	Token  string // repair: of the plan that the visitor saw
	Count  int64  // write-off: as many as the visitor saw

	number int
	note   counter.Note
}

// changeView is the page that asks for the reason.
type changeView struct {
	change
	Facts  []string // what is so now
	Wrong  string
	Refuse string // by the check of the delivery limit; Anyway overrules it

	Repair  *doctor.Repair // of VerbRepair
	Missing *int64         // of VerbWriteOff
}

// Possible reports whether there is something to do.
func (v changeView) Possible() bool {
	return (v.Repair == nil || len(v.Repair.Steps()) > 0) && (v.Missing == nil || *v.Missing > 0)
}

var titles = map[Verb]string{
	VerbGrant: "Give a message more attempts", VerbReset: "Forget the failed attempts of a message", VerbSkip: "Dead-letter a message at its next step",
	VerbLimit: "Set the limit of a queue", VerbPause: "Pause the consumers of a queue",
	VerbRepair: "Repair the dead-letter route of a queue", VerbWriteOff: "Write off dead letters that are unaccounted for",
}

var undoTitles = map[Verb]string{VerbLimit: "Clear the limit of a queue", VerbPause: "Resume the consumers of a queue"}

// changeOf reads a change. Queue and ID come from the address alone: a form cannot carry every byte.
func changeOf(r *http.Request) (change, error) {
	queue, err := queueOf(r)
	if err != nil {
		return change{}, err
	}
	q := r.URL.Query()
	ch := change{
		Verb: Verb(q.Get("verb")), Queue: queue, ID: q.Get("id"), Undo: q.Get("undo") != "",
		Number: strings.TrimSpace(r.FormValue("number")), Reason: strings.TrimSpace(r.PostFormValue("reason")), Anyway: r.PostFormValue("anyway") != "",
		Kind: q.Get("kind"), Token: r.PostFormValue("plan"),
	}
	ch.Count, _ = strconv.ParseInt(r.PostFormValue("count"), 10, 64)
	about := []Verb{VerbGrant, VerbReset, VerbSkip}
	switch {
	case !visitorOf(r).Allowed.Has(ch.Verb):
		return ch, forbiddenError{ch.Verb}
	case titles[ch.Verb] == "":
		return ch, formError{"the address names no verb of this page"}
	case ch.Undo && undoTitles[ch.Verb] == "": // the audit would name another change than the one that is made
		return ch, formError{"only a limit and a pause can be undone"}
	case slices.Contains(about, ch.Verb) && ch.ID == "":
		return ch, formError{"the address names no message"}
	}
	return ch, nil
}

// Title is what the change does.
func (ch change) Title() string {
	if ch.Undo {
		return cmp.Or(undoTitles[ch.Verb], titles[ch.Verb])
	}
	return titles[ch.Verb]
}

// Do is what the button says.
func (ch change) Do() string {
	name := ch.Name()
	switch ch.Verb {
	case VerbLimit:
		name += " of"
	case VerbRepair:
		name += " the route of"
	case VerbWriteOff:
		return "Write them off"
	default:
	}
	return strings.ToUpper(name[:1]) + name[1:] + " " + shown(cmp.Or(ch.ID, ch.Queue))
}

// Link is the address of the change.
func (ch change) Link() string {
	undo := ""
	if ch.Undo {
		undo = "1"
	}
	return link("change", "verb", string(ch.Verb), "queue", ch.Queue, "id", ch.ID, "undo", undo, "kind", ch.Kind)
}

// LinkOf is the address of a repair that declares an exchange of a type.
func (ch change) LinkOf(kind string) string {
	ch.Kind = kind
	return ch.Link()
}

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
	ch, err := changeOf(r)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.showChange(w, r, http.StatusOK, changeView{change: ch})
}

func (c *Console) showChange(w http.ResponseWriter, r *http.Request, code int, v changeView) {
	ctx, cancel := brieflyAsked(r)
	defer cancel()
	err := c.explain(ctx, &v)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	about := shown(v.Queue)
	if v.ID != "" {
		about = shown(v.ID) + " of " + about
	}
	c.render(w, r, code, page{Screen: "change", Title: v.Title() + ": " + about, Queue: v.Queue, View: v})
}

// explain fills in the present state.
func (c *Console) explain(ctx context.Context, v *changeView) (err error) {
	switch v.Verb {
	case VerbRepair:
	case VerbWriteOff:
		return c.explainWriteOff(ctx, v)
	default:
		v.Facts, err = whileSlow(ctx, func() ([]string, error) { return c.facts(ctx, v.change) })
		return err
	}
	plan, err := c.broker.PlanRepair(ctx, inspect.Need{Queue: v.Queue}, v.Kind)
	v.Repair, v.Facts = &plan, repairFacts(plan)
	return err
}

// makeChange makes the change, and answers with what really changed.
func (c *Console) makeChange(w http.ResponseWriter, r *http.Request) {
	ch, err := changeOf(r)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	v := changeView{change: ch}
	if v.Wrong = ch.check(); v.Wrong != "" {
		c.showChange(w, r, http.StatusUnprocessableEntity, v)
		return
	}
	ctx, cancel := brieflyAsked(r)
	defer cancel()
	ch.note = counter.Note{By: visitorOf(r).Actor, Why: ch.Reason}
	q := c.records(ch.Queue)
	var unwritten error
	q.Warn = func(err error) { unwritten = err }
	text, err := c.carryOut(ctx, q, ch)
	var tight limitError
	if errors.As(err, &tight) {
		v.Refuse = err.Error()
		c.showChange(w, r, http.StatusConflict, v)
		return
	}
	if errors.Is(err, doctor.ErrPlanChanged) || errors.Is(err, counter.ErrWriteOff) {
		v.Wrong = "The queue changed after this page was made, so nothing was done. The page now shows what would be done."
		c.showChange(w, r, http.StatusConflict, v)
		return
	}
	res := result{OK: err == nil, Text: text}
	if err != nil {
		res.Text = fmt.Sprintf("%s failed: %s", ch.Name(), shown(err.Error()))
	}
	if unwritten != nil {
		res.Text += " The audit could not be written: " + shown(unwritten.Error())
	}
	c.changed(ch.Queue)
	goTo(w, link("queue", "queue", ch.Queue, "result", c.results.put(res)))
}

// check returns what is wrong with a form.
func (ch *change) check() string {
	if ch.Reason == "" {
		return noReason
	}
	what, least, most := "attempts", 1, counter.MaxGrant
	switch {
	case ch.Verb == VerbLimit && !ch.Undo:
		what, least, most = "retries", 0, counter.MaxOverride
	case ch.Verb != VerbGrant:
		return ""
	}
	n, err := strconv.Atoi(ch.Number)
	if err != nil || n < least || n > most {
		return fmt.Sprintf("The number of %s must be %d to %d, got %s.", what, least, most, shown(ch.Number))
	}
	ch.number = n
	return ""
}
