package records

import (
	"context"

	"github.com/strikesmq/strikes/counter"
)

// Grant adds attempts to the limit of one message.
type Grant struct {
	VHost          string `json:"vhost"`
	Queue          string `json:"queue"`
	ID             string `json:"id"`
	Generation     string `json:"generation,omitempty"`
	Attempts       int    `json:"attempts"` // added
	FailedAttempts int    `json:"failed_attempts"`
	Limit          int    `json:"limit,omitempty"` // in force with them; 0: the consumers' own is not known
	Note
	Done bool `json:"done"`

	message counter.Message
	why     counter.Note
}

// PlanGrant finds what a grant would change. The error wraps ErrNone if the
// message has not failed yet, counter.ErrOver if its generation is over.
func (q *Queue) PlanGrant(ctx context.Context, id string, attempts int, why counter.Note) (Grant, error) {
	r, err := q.current(ctx, id)
	if err != nil {
		return Grant{}, err
	}
	override, err := q.Override(ctx)
	if err != nil {
		return Grant{}, err
	}
	g := Grant{
		VHost: q.VHost, Queue: q.Name, ID: r.ID, Generation: r.Generation, Attempts: attempts, FailedAttempts: r.Counted(), Note: NoteOf(why),
		message: r.Message, why: why,
	}
	r.Granted.Attempts = min(r.Granted.Attempts+attempts, counter.MaxGrant)
	g.Limit = r.InForce(override)
	return g, nil
}

// Retries is how many retries the queue's delivery limit must allow.
func (g Grant) Retries() int {
	return min(max(g.Limit, g.FailedAttempts+g.Attempts)-1, counter.MaxOverride)
}

// Grant carries out a plan.
func (q *Queue) Grant(ctx context.Context, g *Grant) error {
	err := q.Store.Grant(ctx, g.message, counter.Grant{Attempts: g.Attempts, Note: g.why})
	q.Audit(ctx, entryOf(VerbGrant, g.ID, g.why, g.Attempts), err)
	g.Done = err == nil
	return err
}
