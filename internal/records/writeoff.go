package records

import (
	"context"

	"github.com/strikesmq/strikes/counter"
)

// WriteOff accepts that dead letters of a queue are unaccounted for.
type WriteOff struct {
	VHost string `json:"vhost"`
	Queue string `json:"queue"`
	Count int64  `json:"written_off"`
	Note
	Done bool `json:"done"`

	before int64
	why    counter.Note
}

// PlanWriteOff plans to accept the loss of missing dead letters, of which written were written off before. The error wraps ErrNone if
// none is missing.
func (q *Queue) PlanWriteOff(missing, written int64, why counter.Note) (WriteOff, error) {
	if missing < 1 {
		return WriteOff{}, q.None("no dead letter is unaccounted for")
	}
	return WriteOff{VHost: q.VHost, Queue: q.Name, Count: missing, Note: NoteOf(why), before: written, why: why}, nil
}

// WriteOff carries out a plan. The error wraps counter.ErrWriteOff if the figures changed meanwhile.
func (q *Queue) WriteOff(ctx context.Context, w *WriteOff) error {
	err := q.Store.WriteOff(ctx, q.VHost, q.Name, w.Count, w.before)
	q.Audit(ctx, entryOf(VerbWriteOff, "", w.why, int(w.Count)), err)
	w.Done = err == nil
	return err
}
