package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/ops"
)

// verb is what is about to be done, for the question.
type verb struct {
	verb, done, where string
	filter            deadletter.Filter
	max               int

	instead, does string // the verb of lane that keeps the order of blocked lanes, and its effect on a lane
}

// agreed asks, or only says what would be done: then it is false. It refuses blocked lanes, also those that are blocked
// since it asked.
func (c *deadChange) agreed(ctx context.Context, q *dlq, v verb) (bool, error) {
	if err := c.refuseBlocked(ctx, q, v.instead, v.does); err != nil {
		return false, err
	}
	dry, yes := c.dryRun, c.yes
	if yes && !dry {
		return true, nil
	}
	if !dry && (!term.IsTerminal(c.In) || !term.IsTerminal(c.Err)) {
		return false, c.Confirm(ctx, false, true, "") // which refuses
	}
	want := seek(v.filter)
	n, err := c.count(ctx, q, v, want)
	if err != nil {
		return false, q.fail(err)
	}
	if n == 0 {
		return false, q.nothing(want)
	}
	if dry {
		fmt.Fprintf(c.Err, "%d would be %s%s\n", n, v.done, v.where)
		if reached(v.max, n) {
			return false, nil
		}
		return false, want.missing(q.dead.Name)
	}
	question := fmt.Sprintf("%s %d dead letters of queue %s%s?", strings.ToUpper(v.verb[:1])+v.verb[1:], n, q.where(),
		v.where)
	if err := c.Confirm(ctx, false, true, question); err != nil {
		return false, err
	}
	return true, c.refuseBlocked(ctx, q, v.instead, v.does)
}

// count counts, and with --dry-run lists, what is meant.
func (c *deadChange) count(ctx context.Context, q *dlq, v verb, want *wanted) (n int, err error) {
	list := c.dryRun && q.dead.Handling.Hold
	if v.filter.Everything() && !list {
		n, err = q.dead.Depth(ctx)
		if v.max > 0 {
			n = min(n, v.max)
		}
		return n, err
	}
	out := render.DeadLetters(c.Out, c.json)
	for l, err := range q.dead.Browse(ctx, v.filter) {
		if err != nil {
			return n, err
		}
		want.saw(l)
		if list {
			err = out.Row(l)
		}
		if n++; err != nil || n == v.max {
			return n, errors.Join(err, out.Flush())
		}
	}
	return n, out.Flush()
}

// chosen is filter for what changes the queue: everything is meant only if that is said.
func (c *deadChange) chosen(ids []string) (deadletter.Filter, error) {
	f, err := c.filter(&c.deadWhere, ids)
	switch {
	case err != nil:
		return f, err
	case c.most < 0:
		return f, cli.Refused("max", c.most, "0 or more")
	case f.Everything() && !c.all:
		return f, cli.Misusef("say which dead letters: an ID, a filter, or --all")
	case !f.Everything() && c.all:
		return f, cli.Misusef("--all cannot be used with an ID or a filter")
	}
	return f, nil
}

// audit returns functions for the audit log: begin writes the beginning of a replay or a drop, once, and end the
// result. If nothing began, because no dead letter matches, there is no entry.
func (c *deadChange) audit(ctx context.Context, q *dlq, v verb) (begin func(), end func(done int, err error)) {
	ended := func(int, error) {}
	begin = sync.OnceFunc(func() { ended = q.auditAs(ctx, c.Err, c.given(), v.verb, filterText(v.filter, v.max)) })
	return begin, func(done int, err error) { ended(done, err) }
}

// auditAs writes the beginning of a change to the audit log. The caller calls the function that it returns with the
// result.
func (q *dlq) auditAs(ctx context.Context, stderr io.Writer, why counter.Note, verb,
	subject string) (ended func(done int, err error)) {
	if q.store == nil {
		return func(int, error) {}
	}
	log := ops.Queue{Store: q.store.Admin(), VHost: q.broker.VHost, Name: q.queue, Warn: func(err error) {
		fmt.Fprintf(stderr, "the audit log lacks this %s: %s\n", verb, term.Printable(err.Error(), ""))
	}}
	e := counter.AuditEntry{Actor: why.By, Verb: verb, Subject: subject, Reason: why.Why}
	begun := e
	begun.Result = ops.ResultBegun
	log.Audit(ctx, begun, nil)
	return func(done int, err error) {
		e.Count = int64(done)
		log.Audit(ctx, e, err)
	}
}

// filterText says which dead letters a filter means, as the flags do.
func filterText(f deadletter.Filter, most int) string {
	var words []string
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag+" "+value)
		}
	}
	add("--error", f.Reason)
	add("--group", f.Group)
	add("--kind", string(f.Kind))
	add("--origin", f.Queue)
	if f.Lane != "" {
		words = append(words, "--lane-header "+f.Lane, "--lane "+f.LaneValue)
	}
	if f.Older > 0 {
		add("--older-than", f.Older.String())
	}
	if f.Newer > 0 {
		add("--newer-than", f.Newer.String())
	}
	if most > 0 {
		add("--max", fmt.Sprint(most))
	}
	return cmp.Or(strings.Join(append(f.IDs, words...), " "), "--all")
}
