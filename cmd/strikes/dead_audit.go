package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/ops"
)

// audit returns functions for the audit log: begin writes the beginning of a replay or a drop, once, and end the
// result. If nothing began, because no dead letter matches, there is no entry.
func (c *deadChange) audit(ctx context.Context, q *dlq, v verb) (begin func(), end func(done int, err error)) {
	ended := func(int, error) {}
	begin = sync.OnceFunc(func() { ended = q.auditAs(ctx, c.Err, c.Given(), v.verb, filterText(v.filter, v.max)) })
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
