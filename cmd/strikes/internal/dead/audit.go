package dead

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/records"
)

// audit writes the beginning of a replay or a drop to the audit log. The caller calls the function that it returns with the result.
func (c *Command) audit(ctx context.Context, q *dlq, v verb) (ended func(done int, err error)) {
	return c.auditAs(ctx, q, v.verb, filterText(v.filter, v.max))
}

func (c *Command) auditAs(ctx context.Context, q *dlq, verb, subject string) (ended func(done int, err error)) {
	if q.store == nil {
		return func(int, error) {}
	}
	log := records.Queue{Store: q.store.Admin(), VHost: q.broker.VHost, Name: q.queue, Warn: func(err error) {
		fmt.Fprintf(c.Err, "the audit log lacks this %s: %s\n", verb, term.Printable(err.Error(), ""))
	}}
	why := c.Given()
	e := counter.AuditEntry{Actor: why.By, Verb: verb, Subject: subject, Reason: why.Why}
	begun := e
	begun.Result = records.ResultBegun
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
