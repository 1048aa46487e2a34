package dead

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
)

// searched is how many dead letters are read without being asked for: a longer queue takes long, and a quorum queue counts it.
const searched = 500

// groups prints the dead letters by kind and reason: from the store's records where they can answer.
func (c *Command) groups(ctx context.Context, q *dlq, f deadletter.Filter) error {
	recorded, byStore, err := c.answers(ctx, q, f)
	if err != nil {
		return q.fail(err)
	}
	messages, source, err := c.messages(ctx, q, f, 0, c.Records || byStore)
	if err != nil {
		return err
	}
	out := render.Groups(c.Out, c.JSON, c.Limit, source)
	if source == render.FromQueue {
		return c.printed(q, f, 0, messages, out)
	}
	if byStore {
		fmt.Fprintln(c.Err, q.provenance(recorded, time.Now()))
	}
	p, records := term.NewProgress(c.Err), q.records()
	records.Counting = func(n int) {
		if n%step == 0 {
			p.Show("counting records", n, max(recorded, n))
		}
	}
	counted, err := records.Groups(ctx, f, 0)
	p.Finish()
	if err != nil {
		return q.fail(err)
	}
	if counted.Count == 0 {
		return q.nothing(seek(f))
	}
	return out.Print(counted.Groups)
}

// step is how many records are counted before the next report of progress.
const step = 1000

// answers reports whether the store's records answer for a queue that could be read, and how many there are.
func (c *Command) answers(ctx context.Context, q *dlq, f deadletter.Filter) (recorded int, byStore bool, err error) {
	if c.Records || c.Read || q.store == nil || !q.dead.Handling.Hold || !q.records().Knows(f) {
		return 0, false, nil
	}
	recorded, err = q.store.Admin().CountDead(ctx, q.broker.VHost, q.queue)
	return recorded, recorded > 0 && storeAnswers(recorded, q.ready), err
}

// storeAnswers decides between the store, which has so many records, and a queue with so many ready messages. If the two differ,
// a short queue is read for the difference, and a long one if a tenth of its messages has no record. A negative number is not known.
func storeAnswers(recorded, ready int) bool {
	return ready < 0 || ready == recorded || ready > searched && recorded >= ready-ready/10
}

// provenance says where groups come from, as of when, and what the store lacks.
func (q *dlq) provenance(recorded int, now time.Time) string {
	from := "from the store's records at " + now.UTC().Format(time.RFC3339)
	switch {
	case q.ready < 0:
		return fmt.Sprintf("%s; the messages of queue %s could not be counted", from, q.where())
	case q.ready > recorded:
		return fmt.Sprintf("%s: %d of the %s in queue %s have one; --read reads the queue", from, recorded, printable.Plural(q.ready, "message"), q.where())
	case q.ready < recorded:
		return fmt.Sprintf("%s: there are %d, but %s in queue %s; --read reads the queue", from, recorded, printable.Plural(q.ready, "message"), q.where())
	}
	return fmt.Sprintf("%s; queue %s holds as many messages; --read reads the queue", from, q.where())
}
