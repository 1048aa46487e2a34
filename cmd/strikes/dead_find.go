package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
)

// search looks for the dead letters of one id.
type search struct {
	q       *dlq
	filter  deadletter.Filter
	bounds  deadletter.Bounds
	message bool // a record will not do
	found   int

	kept   kept
	unread bool // the store alone answers
}

// find decides how far to read.
func (c *deadShow) find(ctx context.Context, q *dlq, f deadletter.Filter) (s *search, err error) {
	s = &search{q: q, filter: f, message: c.body || c.json}
	if c.search < 0 {
		return nil, cli.Refused("search", c.search, "0 or more")
	}
	if s.kept, err = q.keptOf(ctx, f); err != nil {
		return nil, err
	}
	switch long := q.ready > searched; {
	case c.Changed("search"):
		s.bounds.AtMost = c.search
	case s.message, s.kept.dead == nil && (!long || s.kept.removed == nil):
		s.bounds.Picked, s.bounds.AtLeast = 1, searched
	case long:
		s.unread = true
	default:
		s.bounds.AtMost = searched
	}
	return s, nil
}

// each calls show for what is found, or else what the store knows, and returns a remark on what was not read.
func (s *search) each(ctx context.Context, show func(*deadletter.Message) error) (remark string, err error) {
	if s.unread {
		return s.answer(show, fmt.Sprintf("queue %s holds %d messages; --search %d reads the first ones, --search 0 all",
			s.q.where(), s.q.ready, searched))
	}
	for l, err := range s.q.dead.BrowsePart(ctx, s.filter, s.bounds) {
		var left *deadletter.UnreadError
		switch {
		case errors.As(err, &left) && s.found > 0:
			return fmt.Sprintf("only the first %d of %d dead letters were read; others of this ID may follow (--search 0 "+
				"reads all)", left.Read, left.Of), nil
		case err != nil:
			return s.fallBack(show, err)
		}
		if err := show(l); err != nil {
			return "", err
		}
		s.found++
	}
	if s.found == 0 {
		return "", s.absent(show)
	}
	return "", nil
}

// answer shows what the store knows; why says why the queue was not read.
func (s *search) answer(show func(*deadletter.Message) error, why string) (remark string, err error) {
	if s.kept.dead == nil {
		return "", cli.WithCode(fmt.Errorf("%s was replayed or dropped at %s, by the store; %s",
			term.Shown(s.filter.IDs[0]), s.kept.removed.Record.Removed.UTC().Format(time.RFC3339), why), cli.ExitNothing)
	}
	remark = fmt.Sprintf("headers and body were not read: %s. This is the store's record as of %s; the message may have "+
		"left the queue since.",
		why, time.Now().UTC().Format(time.RFC3339))
	return remark, show(s.kept.dead)
}

// fallBack prints what the store knows if the message was not read. Not to have read it is no failure then.
func (s *search) fallBack(show func(*deadletter.Message) error, cause error) (remark string, err error) {
	var left *deadletter.UnreadError
	partly := errors.As(cause, &left)
	why := cli.Plain(s.q.wayOut(cause))
	if partly {
		why = fmt.Sprintf("%s is not among the first %d of %d dead letters of queue %s; --search 0 reads all",
			term.Shown(s.filter.IDs[0]), left.Read, left.Of, s.q.where())
	}
	refused := errors.Is(cause, deadletter.ErrUnsafe) || errors.Is(cause, deadletter.ErrBusy) ||
		errors.Is(cause, deadletter.ErrUndecodable)
	switch {
	case (partly || refused) && s.found == 0 && !s.message && s.kept.dead != nil:
		return s.answer(show, why)
	case partly:
		return "", cli.WithCode(errors.New(why), cli.ExitNothing)
	}
	return "", s.q.fail(cause)
}
