package ops

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/strikesmq/strikes/counter"
)

// ErrNone is wrapped by errors about a queue or a message of which nothing is
// counted, or for which nothing is set.
var ErrNone = errors.New("records: none")

// noneError is ErrNone with a text of its own.
type noneError struct{ text string }

func (e noneError) Error() string { return e.text }
func (noneError) Unwrap() error   { return ErrNone }

// Queue is where operators work on the records of a queue.
type Queue struct {
	Store *counter.Admin
	VHost string
	Name  string

	// Unconsumed returns the result of the function Unconsumed. A pause asks for it; nil: it does not ask.
	Unconsumed func(context.Context) (how string, err error)

	// records that Read has read, by id
	known map[string][]counter.Record

	// gets the reason why consumers ignore the queue's override, or why the audit log lacks a change; nil is silent
	Warn func(error)
}

// None returns an error that wraps ErrNone and names the queue.
func (q *Queue) None(format string, args ...any) error {
	return noneError{fmt.Sprintf("%s of queue %q in virtual host %q", fmt.Sprintf(format, args...), q.Name, q.VHost)}
}

// List yields the newest records of the queue, limit at most (0: all).
func (q *Queue) List(ctx context.Context, limit int) iter.Seq2[counter.Record, error] {
	return func(yield func(counter.Record, error) bool) {
		n := 0
		for r, err := range q.Store.List(ctx, q.VHost, q.Name) {
			if n++; !yield(r, err) || err != nil || n == limit {
				return
			}
		}
	}
}

// Message returns the records of all generations of a message, the newest first, or an error that wraps ErrNone.
func (q *Queue) Message(ctx context.Context, id string) ([]counter.Record, error) {
	records, err := q.generations(ctx, id)
	if err == nil && len(records) == 0 {
		err = q.None("nothing is counted of message %q", id)
	}
	return records, err
}

// Read reads the records of several messages in one search. The changes that are planned next get these records, even
// if a step has changed one since.
func (q *Queue) Read(ctx context.Context, ids []string) (err error) {
	q.known, err = q.Store.GetAll(ctx, q.VHost, q.Name, ids)
	return err
}

func (q *Queue) generations(ctx context.Context, id string) ([]counter.Record, error) {
	records, read := q.known[id]
	if !read {
		var err error
		if records, err = q.Store.Get(ctx, q.VHost, q.Name, id); err != nil {
			return nil, err
		}
	}
	for i := range records {
		records[i].ID = id // a record keeps only the beginning of a long one
	}
	return records, nil
}

// Override returns the limit that the queue's consumers obey instead of their
// own; nil if there is none, or one that they ignore.
func (q *Queue) Override(ctx context.Context) (*counter.Override, error) {
	set, err := q.Store.Limit(ctx, q.VHost, q.Name)
	if errors.Is(err, counter.ErrOverride) {
		if q.Warn != nil {
			q.Warn(err)
		}
		return nil, nil
	}
	return set, err
}

// current returns the record of the generation that is not over yet, or that has one of some other states. If there is
// none, it returns the newest with an error that wraps counter.ErrOver.
func (q *Queue) current(ctx context.Context, id string, or ...counter.State) (counter.Record, error) {
	records, err := q.Message(ctx, id)
	if err != nil {
		return counter.Record{}, notYet(err)
	}
	i := slices.IndexFunc(records, func(r counter.Record) bool {
		return !r.IsOver() || slices.Contains(or, r.State)
	})
	if i < 0 {
		return records[0], fmt.Errorf("message %q of queue %q: %w", id, q.Name, counter.ErrOver)
	}
	return records[i], nil
}
