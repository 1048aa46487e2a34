package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
)

// Limit is a limit that an operator set for a queue or for one message, or is about to set.
type Limit struct {
	VHost    string `json:"vhost"`
	Queue    string `json:"queue"`
	ID       string `json:"id,omitempty"`         // of the message; empty: the limit is that of the queue
	Attempts int    `json:"limit,omitempty"`      // 0: that of the consumers, or a limit that cannot be read
	MaxAgeMS *int64 `json:"max_age_ms,omitempty"` // nil: that of the consumers; 0: none
	counter.Note
	Done *bool `json:"done,omitempty"` // set or cleared; false: planned; nil: shown

	// DeadLetters is how many messages reached the limit already.
	DeadLetters int `json:"dead_letters,omitempty"`

	to      *counter.Override // nil: cleared
	message counter.Message   // if there is an ID
	why     counter.Note
}

// LimitOf returns an override of the store.
func (q *Queue) LimitOf(o counter.Override) Limit {
	l := Limit{VHost: q.VHost, Queue: q.Name, Attempts: o.Limit(), Note: o.Note}
	if o.MaxAge != nil {
		l.MaxAgeMS = new(o.MaxAge.Milliseconds())
	}
	return l
}

// Words returns the limit: the retries, and the attempts that these are.
func (l Limit) Words() string {
	var parts []string
	if l.Attempts > 0 || l.MaxAgeMS == nil {
		parts = append(parts, fmt.Sprintf("%s (%s)", printable.Plural(max(l.Attempts-1, 0), "retry"),
			printable.Plural(l.Attempts, "attempt")))
	}
	switch {
	case l.MaxAgeMS == nil:
	case *l.MaxAgeMS == 0:
		parts = append(parts, "no maximal age")
	default:
		parts = append(parts, "a maximal age of "+short(time.Duration(*l.MaxAgeMS)*time.Millisecond))
	}
	return strings.Join(parts, " and ")
}

// short is a duration without parts that are zero: 24h, not 24h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// planLimit finds the effect of a new limit. A limit of the other kind stays.
func planLimit(ctx context.Context, q *Queue, a Ask) (Plan, error) {
	if a.ID != "" {
		return q.planOwn(ctx, a.ID, *a.MaxRetries+1, a.Note)
	}
	o := counter.Override{MaxRetries: a.MaxRetries, MaxAge: a.MaxAge, Note: a.Note}
	before, err := q.Override(ctx)
	if err != nil {
		return nil, err
	}
	then := o // the limits that will be in force
	if before != nil {
		then.MaxRetries, then.MaxAge = cmp.Or(o.MaxRetries, before.MaxRetries), cmp.Or(o.MaxAge, before.MaxAge)
	}
	l := q.LimitOf(o)
	l.to, l.why = &o, a.Note
	return q.planned(ctx, l, &then)
}

// planClear finds the change that clearing the limit makes. A limit that cannot be read can be cleared.
func planClear(ctx context.Context, q *Queue, a Ask) (Plan, error) {
	if a.ID != "" {
		return q.planOwn(ctx, a.ID, 0, a.Note)
	}
	l := Limit{VHost: q.VHost, Queue: q.Name}
	switch set, err := q.Store.Limit(ctx, q.VHost, q.Name); {
	case errors.Is(err, counter.ErrOverride), errors.Is(err, counter.ErrForeign):
	case err != nil:
		return nil, err
	case set == nil:
		return nil, noneError{fmt.Sprintf("no limit is set for queue %q in virtual host %q: its consumers use their own",
			q.Name, q.VHost)}
	default:
		l = q.LimitOf(*set)
	}
	l.why = a.Note
	return q.planned(ctx, l, nil)
}

// planOwn finds the effect of a limit of its own on one message; attempts are 1 or more, or 0 to take it back.
func (q *Queue) planOwn(ctx context.Context, id string, attempts int, why counter.Note) (Plan, error) {
	r, err := q.current(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case attempts == 0 && r.OwnLimit == 0:
		return nil, q.None("no limit of its own is set for message %q", id)
	}
	override, err := q.Override(ctx)
	if err != nil {
		return nil, err
	}
	l := Limit{VHost: q.VHost, Queue: q.Name, ID: id, Attempts: attempts, Note: why, Done: new(bool), why: why,
		message: r.Message}
	r.OwnLimit = attempts
	if ends(r, override) {
		l.DeadLetters = 1
	}
	return &l, nil
}

// planned counts the messages that then, the limits after the change, dead-letters at their next step.
func (q *Queue) planned(ctx context.Context, l Limit, then *counter.Override) (Plan, error) {
	l.Done = new(bool)
	for r, err := range q.Store.Live(ctx, q.VHost, q.Name) {
		if err != nil {
			return nil, err
		}
		if ends(r, then) {
			l.DeadLetters++
		}
	}
	return &l, nil
}

func ends(r counter.Record, override *counter.Override) bool {
	limit := r.InForce(override)
	return limit > 0 && r.Counted() >= limit || r.TooOld(override)
}

// Question asks before messages are dead-lettered.
func (l *Limit) Question(int) string {
	if l.DeadLetters == 0 {
		return ""
	}
	who := printable.Plural(l.DeadLetters, "message")
	if l.ID != "" {
		who = "Message " + printable.Name(l.ID)
	}
	return fmt.Sprintf("%s of queue %s reached this limit already, and would be dead-lettered at the next step. Go on?",
		who, printable.Name(l.Queue))
}

// Do sets or clears the limit.
func (l *Limit) Do(ctx context.Context, q *Queue) (err error) {
	verb, subject, messages := VerbSetLimit, l.Words(), 0
	if l.clears() {
		verb, subject = VerbClearLimit, ""
	}
	switch {
	case l.ID != "":
		subject, messages = strings.TrimSuffix(l.ID+": "+subject, ": "), 1
		err = q.Store.LimitMessage(ctx, l.message, l.Attempts, l.why)
	case l.to != nil:
		err = q.Store.SetLimit(ctx, q.VHost, q.Name, *l.to)
	default:
		_, err = q.Store.ClearLimit(ctx, q.VHost, q.Name)
	}
	*l.Done = err == nil
	return q.audited(ctx, verb, subject, l.why, messages, err)
}

// Text describes the change of the limit.
func (l *Limit) Text() string {
	text := printable.Name(cmp.Or(l.ID, l.Queue)) + ": "
	if !*l.Done {
		text += "would be "
	}
	if l.clears() {
		text += "cleared"
	} else {
		text += "set to " + l.Words()
	}
	if n := l.DeadLetters; n > 0 {
		text += fmt.Sprintf("; dead-letters %s that reached it already", printable.Plural(n, "message"))
	}
	return text
}

func (l *Limit) clears() bool { return l.to == nil && (l.ID == "" || l.Attempts == 0) }
