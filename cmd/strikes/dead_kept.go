package main

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/ops"
)

// kept is what the store knows of the dead letters of one id.
type kept struct {
	dead    *deadletter.Message // the newest that was neither replayed nor dropped; nil: none
	removed *deadletter.Message // the newest that was; nil: none
	alive   ops.State           // of the newest generation, if that is not dead-lettered
}

// keptOf asks the store for the dead letters that a filter with one id picks.
func (q *dlq) keptOf(ctx context.Context, f deadletter.Filter) (k kept, err error) {
	if q.store == nil {
		return k, nil
	}
	all, err := q.store.Admin().Get(ctx, q.broker.VHost, q.queue, f.IDs[0])
	if err != nil {
		return k, err
	}
	for i := range all { // the newest first
		r := &all[i]
		m := deadletter.OfRecord(r)
		switch {
		case r.State != counter.StateDeadLetter:
			if i == 0 {
				k.alive = ops.StateOf(*r)
			}
		case !f.Match(m, time.Now()):
		case r.Removed.IsZero():
			k.dead = m
			return k, nil
		case k.removed == nil:
			k.removed = m
		}
	}
	return k, nil
}

// absent shows the record of a dead letter that the queue, which was read to its end, does not hold.
func (s *search) absent(show func(*deadletter.Message) error) error {
	err := s.q.nothing(seek(s.filter))
	if s.q.held != nil || s.q.unseen > 0 {
		return err
	}
	last := s.kept.dead
	if last == nil {
		last = s.kept.removed
	}
	if last != nil && !s.message {
		if err := show(last); err != nil {
			return err
		}
	}
	if why := s.kept.whereabouts(s.q.queue, s.filter.IDs[0]); why != "" {
		return cli.WithCode(fmt.Errorf("%w; %s", err, why), cli.ExitNothing)
	}
	return err
}

// whereabouts returns the state of a message that is not in the dead-letter queue, by its record, and the command that
// shows more. It is empty if the store has no record.
func (k kept) whereabouts(queue, id string) string {
	switch {
	case k.alive != "":
		return fmt.Sprintf("by its record it is %s, not dead-lettered; run: strikes counter get %s", k.alive,
			shell.Operands(queue, id))
	case k.dead != nil:
		return fmt.Sprintf("by its record it died at %s: it is on its way, expired, was consumed elsewhere or was lost; "+
			"run: strikes doctor %s",
			k.dead.Record.LastTime.UTC().Format(time.RFC3339), shell.Operands(queue))
	case k.removed != nil:
		return fmt.Sprintf("by its record it was replayed or dropped at %s; run: strikes audit %s",
			k.removed.Record.Removed.UTC().Format(time.RFC3339), shell.Operands(queue))
	}
	return ""
}
