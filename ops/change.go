package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// The verbs of the audit log. Changes describes the first ones.
const (
	VerbPause       = "pause"
	VerbResume      = "resume"
	VerbSkip        = "skip"
	VerbReset       = "reset"
	VerbSetLimit    = "set limit"
	VerbClearLimit  = "clear limit"
	VerbReplay      = "replay"
	VerbDrop        = "drop"
	VerbRelease     = "release"
	VerbFix         = "doctor-fix"
	VerbRepartition = "repartition"
)

// Change is a change of a queue, or of one of its messages, that takes effect at once. Command and console make it in
// the same steps: Plan, show the Text or ask the Question, Do, show the Text.
type Change struct {
	Verb  string // in the audit log
	Right string // the verb that a visitor of the console must be allowed
	Undo  bool   // it takes back another change with this Right
	Title string // the heading of its form

	OfQueue, OfMessage bool // whether it applies to a queue, and to a message, which Ask.ID names

	// Plan finds out the effect of the change, and changes nothing. Its error wraps ErrNone if there is nothing to
	// change, and counter.ErrOver if the generation of the message is over.
	Plan func(context.Context, *Queue, Ask) (Plan, error)
}

// Changes are all of them. Replay and drop are not: they take time, and may be stopped.
var Changes = []Change{
	{Verb: VerbSetLimit, Right: "limit", Title: "Set the limit", OfQueue: true, OfMessage: true, Plan: planLimit},
	{Verb: VerbClearLimit, Right: "limit", Undo: true, Title: "Clear the limit", OfQueue: true, OfMessage: true,
		Plan: planClear},
	{Verb: VerbPause, Right: "pause", Title: "Pause the consumers of a queue", OfQueue: true, Plan: planPause},
	{Verb: VerbResume, Right: "pause", Undo: true, Title: "Resume the consumers of a queue", OfQueue: true,
		Plan: planResume},
	{Verb: VerbSkip, Right: "skip", Title: "Dead-letter a message at its next step", OfMessage: true, Plan: planSkip},
	{Verb: VerbReset, Right: "reset", Title: "Forget the failed attempts of a message", OfMessage: true,
		Plan: planReset},
}

// ChangeOf returns the change with a verb of the audit log.
func ChangeOf(verb string) Change {
	for _, ch := range Changes {
		if ch.Verb == verb {
			return ch
		}
	}
	return Change{}
}

// Ask is an operator's request for a change.
type Ask struct {
	ID         string         // of the message; empty: the queue
	MaxRetries *int           // of a limit; nil: as it is
	MaxAge     *time.Duration // of a limit of a queue; nil: as it is
	Wait       time.Duration  // for consumers to stop, of a pause
	Count      time.Duration  // of a resume: every failure counts for so long, if it closes the breaker
	Note       counter.Note
}

// Plan is a change that was planned, and then maybe made. It marshals to the JSON that --json prints. Its texts are
// escaped.
type Plan interface {
	// Question is asked before so many like this one are made; empty: it destroys nothing, so none is asked.
	Question(plans int) string
	// Do makes the change and writes it to the audit log. What another operator has done meanwhile is done.
	Do(context.Context, *Queue) error
	// Text describes the change before Do, and its result after Do.
	Text() string
}

// The results of a change in the audit log, if it is no error.
const (
	ResultBegun = "begun" // a later entry has the result
	ResultDone  = "done"
)

// auditTimeout bounds the wait for the store after a change that may have been interrupted.
const auditTimeout = 2 * time.Second

// Audit adds a change to the audit log of the queue, with the error that ended it, nil if it is done. A change that is
// done stands if the log cannot be written: Warn gets an error that says so, also if a part was done before it failed.
func (q *Queue) Audit(ctx context.Context, e counter.AuditEntry, err error) {
	e.Result = cmp.Or(e.Result, ResultDone)
	if err != nil {
		e.Result = strings.TrimPrefix(err.Error(), "deadletter: ")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	if lost := q.Store.Audit(ctx, q.VHost, q.Name, e); lost != nil && (err == nil || e.Count > 0) && q.Warn != nil {
		q.Warn(fmt.Errorf("the audit log lacks this %s: %w", e.Verb, lost))
	}
}

// audited adds a change with a note to the audit log, and returns err.
func (q *Queue) audited(ctx context.Context, verb, subject string, n counter.Note, messages int, err error) error {
	if err != nil {
		messages = 0
	}
	q.Audit(ctx, counter.AuditEntry{Actor: n.By, Verb: verb, Subject: subject, Reason: n.Why, Count: int64(messages)}, err)
	return err
}

// AuditLog returns the newest entries of the queue's audit log, the newest first. The error wraps ErrNone if there are
// none.
func (q *Queue) AuditLog(ctx context.Context, limit int) ([]counter.AuditEntry, error) {
	entries, err := q.Store.AuditLog(ctx, q.VHost, q.Name, "", limit)
	if err == nil && len(entries) == 0 {
		err = q.None("no change was made by hand")
	}
	return entries, err
}

// notYet adds to an error that nothing is counted why that is.
func notYet(err error) error {
	if errors.Is(err, ErrNone) {
		return fmt.Errorf("%w: it has not failed yet, or its failures did not count", err)
	}
	return err
}
