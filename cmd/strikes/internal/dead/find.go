package dead

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
)

// searched is how many dead letters are read to find one that the store knows: the rest is left unread.
const searched = 500

// search looks for the dead letters of one id.
type search struct {
	q       *dlq
	filter  deadletter.Filter
	bounds  deadletter.Bounds
	message bool // a record will not do
	found   int
}

// search decides how far to read.
func (c *Command) search(ctx context.Context, q *dlq, f deadletter.Filter) (*search, error) {
	s := &search{q: q, filter: f, message: c.Body || c.JSON}
	switch {
	case c.Search < 0:
		return nil, cli.Refused("search", c.Search, "0 or more")
	case c.Changed("search"):
		s.bounds.AtMost = c.Search
		return s, nil
	}
	known, err := q.known(ctx, f)
	switch {
	case err != nil:
		return nil, err
	case known && !s.message:
		s.bounds.AtMost = searched
	default:
		s.bounds.Picked, s.bounds.AtLeast = 1, searched
	}
	return s, nil
}

// known reports whether the store has a record of the dead letter. That of the first generation needs no search.
func (q *dlq) known(ctx context.Context, f deadletter.Filter) (bool, error) {
	if q.store == nil {
		return false, nil
	}
	first, err := q.store.Admin().Lookup(ctx, q.broker.VHost, q.queue, []counter.Message{{ID: f.IDs[0]}})
	if err != nil {
		return false, err
	}
	for _, r := range first {
		if q.recorded(r, f) != nil {
			return true, nil
		}
	}
	l, err := q.newestRecorded(ctx, f)
	return l != nil, err
}

// newestRecorded returns the dead letter that the newest record of an id describes; nil if none does.
func (q *dlq) newestRecorded(ctx context.Context, f deadletter.Filter) (*deadletter.Message, error) {
	if q.store == nil {
		return nil, nil
	}
	records, err := q.store.Admin().Get(ctx, q.broker.VHost, q.queue, f.IDs[0])
	if err != nil {
		return nil, err
	}
	for _, r := range records { // the newest first
		if l := q.recorded(r, f); l != nil {
			return l, nil
		}
	}
	return nil, nil
}

// recorded returns the dead letter that a record describes; nil if it describes none, or the filter does not pick it.
func (q *dlq) recorded(r counter.Record, f deadletter.Filter) *deadletter.Message {
	if r.State != counter.StateDeadLetter {
		return nil
	}
	l := deadletter.OfRecord(&r)
	if !f.Match(l, time.Now()) {
		return nil
	}
	return l
}

// each calls show for what is found, or else what the store knows, and returns a remark on what was not read.
func (s *search) each(ctx context.Context, show func(*deadletter.Message) error) (unread string, err error) {
	for l, err := range s.q.dead.BrowsePart(ctx, s.filter, s.bounds) {
		var left *deadletter.UnreadError
		switch {
		case errors.As(err, &left) && s.found > 0:
			return fmt.Sprintf("only the first %d of %d dead letters were read; others of this ID may follow (--search 0 reads all)", left.Read, left.Of), nil
		case err != nil:
			return s.fallBack(ctx, show, err)
		}
		if err := show(l); err != nil {
			return "", err
		}
		s.found++
	}
	if s.found == 0 {
		return "", s.q.nothing(seek(s.filter))
	}
	return "", nil
}

// fallBack prints what the store knows if the message was not read. Not to have read it is no failure then.
func (s *search) fallBack(ctx context.Context, show func(*deadletter.Message) error, cause error) (unread string, err error) {
	var left *deadletter.UnreadError
	var recorded *deadletter.Message
	partly := errors.As(cause, &left)
	if why := errors.Is(cause, deadletter.ErrUnsafe) || errors.Is(cause, deadletter.ErrBusy); (partly || why) && s.found == 0 && !s.message {
		if recorded, err = s.q.newestRecorded(ctx, s.filter); err != nil {
			return "", err
		}
	}
	unread = cause.Error()
	if partly {
		unread = fmt.Sprintf("%s is not among the first %d of %d dead letters of queue %s; --search 0 reads all",
			term.Shown(s.filter.IDs[0]), left.Read, left.Of, s.q.where())
	}
	switch {
	case recorded != nil:
		unread = "headers and body were not read: " + unread + ". This is the store's record; the message may have left the queue since."
		return unread, show(recorded)
	case partly:
		return "", cli.WithCode(errors.New(unread), cli.ExitNothing)
	}
	return "", s.q.fail(cause)
}
