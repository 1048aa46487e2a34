package main

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
)

// searched is how many dead letters are read without being asked for: a longer queue takes long, and a quorum queue
// counts it.
const searched = 500

// runGroups prints the dead letters by kind and reason: from the store's records where they can answer.
func (c *deadList) runGroups(ctx context.Context, q *dlq, f deadletter.Filter) error {
	recorded, byStore, err := q.answers(ctx)
	if err != nil {
		return q.fail(err)
	}
	messages, source, err := c.messages(ctx, q, f, 0, c.records || byStore)
	if err != nil {
		return err
	}
	out := render.Groups(c.Out, c.json, c.limit, source)
	out.Recorded, out.Ready = recorded, q.known()
	q.fromRecords = out.FromRecords
	if source == render.FromQueue {
		if q.counting != nil {
			q.counting.end()
		}
		return c.printed(q, f, 0, messages, out)
	}
	if byStore && !c.records {
		fmt.Fprintln(c.Err, q.provenance(*recorded, time.Now()))
	}
	if q.counting == nil {
		q.count(ctx, f)
	}
	counted, err := q.counting.wait(term.NewProgress(c.Err), recorded)
	switch {
	case err != nil:
		return q.fail(err)
	case counted.Count == 0:
		return q.nothing(seek(f))
	}
	return out.Print(counted.Groups)
}

// known is how many messages the broker counted; nil: not known.
func (q *dlq) known() *int {
	if q.ready < 0 {
		return nil
	}
	return &q.ready
}

// answers reports whether the store's records answer for a queue that could be read, and how many there are; nil: not
// known.
func (q *dlq) answers(ctx context.Context) (recorded *int, byStore bool, err error) {
	if q.counting == nil {
		return nil, false, nil
	}
	n, err := q.store.Admin().CountDead(ctx, q.broker.VHost, q.queue)
	if err != nil {
		return nil, false, err
	}
	return &n, q.dead.Handling.Hold && n > 0 && storeAnswers(n, q.ready), nil
}

// storeAnswers reports whether the store's records answer instead of the queue, by the number of records and of ready
// messages. A short queue is read, because the records may belong to other messages. In a long queue a tenth of the
// messages may lack a record. A negative number is not known.
func storeAnswers(recorded, ready int) bool {
	return ready < 0 || ready > searched && recorded >= ready-ready/10
}

// provenance says where groups come from, as of when, and what the store lacks.
func (q *dlq) provenance(recorded int, now time.Time) string {
	from := "from the store's records at " + now.UTC().Format(time.RFC3339)
	switch {
	case q.ready < 0:
		return fmt.Sprintf("%s; the messages of queue %s could not be counted", from, q.where())
	case q.ready > recorded:
		return fmt.Sprintf("%s: %d of the %s in queue %s have one; --read reads the queue", from, recorded,
			printable.Plural(q.ready, "message"), q.where())
	case q.ready < recorded:
		return fmt.Sprintf("%s: there are %d, but %s in queue %s; --read reads the queue", from, recorded,
			printable.Plural(q.ready, "message"), q.where())
	}
	return fmt.Sprintf("%s: there are %d, and as many messages in queue %s, but they may be others; --read reads "+
		"the queue", from, recorded, q.where())
}
