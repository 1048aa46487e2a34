package records

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
	Note
	Done *bool `json:"done,omitempty"` // set or cleared; false: planned; nil: shown

	// DeadLetters is how many messages have failed that often, or for so long, already.
	DeadLetters int `json:"dead_letters,omitempty"`

	to      *counter.Override // nil: cleared
	message counter.Record    // before the change, if there is an ID
	why     counter.Note
}

// Limit returns what is set for the queue, or an error that wraps ErrNone.
func (q *Queue) Limit(ctx context.Context) (Limit, error) {
	set, err := q.Store.Limit(ctx, q.VHost, q.Name)
	if err != nil {
		return Limit{}, err
	}
	if set == nil {
		return Limit{}, noneError{fmt.Sprintf("no limit is set for queue %q in virtual host %q: its consumers use their own",
			q.Name, q.VHost)}
	}
	return q.LimitOf(*set), nil
}

// LimitOf returns an override of the store.
func (q *Queue) LimitOf(o counter.Override) Limit {
	l := Limit{VHost: q.VHost, Queue: q.Name, Attempts: o.Limit(), Note: NoteOf(o.Note)}
	if o.MaxAge != nil {
		l.MaxAgeMS = new(o.MaxAge.Milliseconds())
	}
	return l
}

// Text returns the limit in words: the retries, and the attempts that these are.
func (l Limit) Text() string {
	var parts []string
	if l.Attempts > 0 || l.MaxAgeMS == nil {
		parts = append(parts, fmt.Sprintf("%s (%s)", printable.Plural(l.MaxRetries(), "retry"), printable.Plural(l.Attempts,
			"attempt")))
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

// Much returns how often, or for how long, a message must have failed for the limit to dead-letter it.
func (l Limit) Much() string {
	switch {
	case l.MaxAgeMS == nil:
		return "that often"
	case l.Attempts == 0:
		return "for that long"
	}
	return "that often, or for that long,"
}

// PlanLimit finds the effect of a new limit. A limit of the other kind stays, and so does the reason why it was set:
// the queue then has both reasons.
func (q *Queue) PlanLimit(ctx context.Context, o counter.Override) (Limit, error) {
	why := o.Note
	before, err := q.Override(ctx)
	if err != nil {
		return Limit{}, err
	}
	if before != nil && (before.MaxRetries != nil && o.MaxRetries == nil || before.MaxAge != nil && o.MaxAge == nil) {
		o.Note.Why = joined(before.Note.Why, why.Why)
	}
	l := q.LimitOf(o)
	l.to, l.why = &o, why
	return q.planned(ctx, l)
}

func joined(old, why string) string {
	if old == "" || why == "" || strings.HasSuffix(old, why) {
		return cmp.Or(old, why)
	}
	return old + "; " + why
}

// PlanClear finds what would change without the limit; why is for the audit
// log. The error wraps ErrNone if there is no limit. A limit that cannot be
// read can be cleared.
func (q *Queue) PlanClear(ctx context.Context, why counter.Note) (Limit, error) {
	l, err := q.Limit(ctx)
	switch {
	case errors.Is(err, counter.ErrOverride), errors.Is(err, counter.ErrForeign):
		l = Limit{VHost: q.VHost, Queue: q.Name}
	case err != nil:
		return l, err
	}
	l.why = why
	return q.planned(ctx, l)
}

// OwnLimit returns the limit of one message alone, or an error that wraps ErrNone. The note is in the audit log alone.
func (q *Queue) OwnLimit(ctx context.Context, id string) (Limit, error) {
	r, err := q.current(ctx, id)
	if err == nil && r.OwnLimit == 0 {
		err = q.None("no limit of its own is set for message %q", id)
	}
	return Limit{VHost: q.VHost, Queue: q.Name, ID: id, Attempts: r.OwnLimit}, err
}

// PlanOwnLimit finds the effect of a limit of its own on one message; attempts are 1 or more, or 0 to take it back.
// The error wraps ErrNone if the message has not failed yet, or has no limit to take back, and counter.ErrOver if its
// generation is over.
func (q *Queue) PlanOwnLimit(ctx context.Context, id string, attempts int, why counter.Note) (Limit, error) {
	if attempts == 0 {
		if l, err := q.OwnLimit(ctx, id); err != nil {
			return l, err
		}
	}
	l := Limit{VHost: q.VHost, Queue: q.Name, ID: id, Attempts: attempts, Note: NoteOf(why), Done: new(bool), why: why}
	var err error
	if l.message, err = q.current(ctx, id); err != nil {
		return l, err
	}
	override, err := q.Override(ctx)
	if err != nil {
		return l, err
	}
	after := l.message
	after.OwnLimit = attempts
	if limit := after.InForce(override); limit > 0 && after.Counted() >= limit || after.TooOld(override) {
		l.DeadLetters = 1
	}
	return l, nil
}

// Failed is how many attempts at the message have failed.
func (l Limit) Failed() int { return l.message.Counted() }

// planned counts the messages that the limit dead-letters at their next step.
func (q *Queue) planned(ctx context.Context, l Limit) (Limit, error) {
	l.Done = new(bool)
	for r, err := range q.Store.Live(ctx, q.VHost, q.Name) {
		if err != nil {
			return l, err
		}
		limit := r.InForce(l.to)
		if limit > 0 && r.Counted() >= limit || r.TooOld(l.to) {
			l.DeadLetters++
		}
	}
	return l, nil
}

// ChangeLimit carries out a plan.
func (q *Queue) ChangeLimit(ctx context.Context, l *Limit) (err error) {
	verb, subject, messages := VerbSetLimit, l.Text(), 0
	if l.Clears() {
		verb, subject = VerbClearLimit, ""
	}
	switch {
	case l.ID != "":
		subject, messages = strings.TrimSuffix(l.ID+": "+subject, ": "), 1
		err = q.Store.LimitMessage(ctx, l.message.Message, l.Attempts, l.why)
	case l.to != nil:
		err = q.Store.SetLimit(ctx, q.VHost, q.Name, *l.to)
	default:
		_, err = q.Store.ClearLimit(ctx, q.VHost, q.Name)
	}
	q.Audit(ctx, entryOf(verb, subject, l.why, messages), err)
	*l.Done = err == nil
	return err
}

// MaxRetries is the limit as consumers are configured with it.
func (l Limit) MaxRetries() int { return max(l.Attempts-1, 0) }

// Clears reports whether the plan clears the limit.
func (l Limit) Clears() bool { return l.to == nil && (l.ID == "" || l.Attempts == 0) }
