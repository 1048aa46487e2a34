package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/ops"
)

// deadList is one run of dead list.
type deadList struct {
	deadWhere
	deadFilter

	limit                       int
	groups, records, read, json bool
}

func (a *app) deadListCommand() *cobra.Command {
	c := deadList{deadWhere: deadWhere{Streams: a.Streams}}
	cmd := &cobra.Command{
		Use: "list QUEUE [ID…]", Short: "list dead letters and why they died",
		Example: `  strikes dead list orders
  strikes dead list orders --groups
  strikes dead list orders --kind timed-out --newer-than 12h`,
		Long: `Dead letters are listed in the order in which replay takes them. list reads the
dead-letter queue, if that does no harm, and the store's records of its
messages. strikes help dead-letters explains the harm, and KIND.

With a filter, an ID or --groups, list takes the store's records, the newest
first, if the queue holds more than 500 messages and there are records of at
least nine tenths of them. stderr says so. Otherwise it reads the queue, as it
does with --read, and for an ID or a --group that no record has.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1:]) },
	}
	c.deadWhere.addTo(cmd)
	c.deadFilter.addTo(cmd)
	f := cmd.Flags()
	f.IntVar(&c.limit, "limit", 0, "list `N` at most, or of --groups the largest N; 0: all")
	f.BoolVar(&c.groups, "groups", false, "count them by kind and reason; each group has a key, which --group takes")
	f.BoolVar(&c.read, "read", false, "read the dead-letter queue, even if the store's records answer")
	f.BoolVar(&c.records, "records", false, "list the store's records, without asking the broker")
	cli.JSON(f, &c.json, "print one JSON object a dead letter, or a group")
	return cmd
}

// run prints the dead letters, or their groups.
func (c *deadList) run(ctx context.Context, queue string, ids []string) error {
	f, err := c.filter(&c.deadWhere, queue, ids)
	switch {
	case err != nil:
		return err
	case c.limit < 0:
		return cli.Refused("limit", c.limit, "0 or more")
	case c.records && c.noStore:
		return cli.Misusef("--records cannot be used with --no-store: records are in the store")
	case c.records && c.read:
		return cli.Misusef("--records cannot be used with --read: it does not ask the broker")
	}
	q, err := c.openStore(ctx, queue)
	if err != nil {
		return err
	}
	defer q.close()
	byStore := (c.groups || !f.Everything() && !c.records) && !c.read && q.store != nil && q.records().Knows(f)
	if byStore {
		debug.SetGCPercent(400) // the process ends with its list, and collecting garbage less often makes that faster
	}
	counting, stop := context.WithCancel(ctx)
	defer stop()
	groups := sync.OnceValues(func() (ops.Groups, error) {
		return q.records().Groups(counting, ops.DeadQuery{Filter: f})
	})
	if c.groups && byStore { // to ask the broker takes about as long
		go func() { _, _ = groups() }()
		defer func() { stop(); _, _ = groups() }()
	}
	if !c.records {
		if err := q.judge(ctx, c.force); err != nil {
			return err
		}
	}
	defer q.noteBlocked(ctx)
	var recorded *int // nil: not counted
	if byStore {
		byStore, recorded, err = q.answers(ctx, f)
	}
	switch {
	case err != nil && c.groups: // a list reads the queue, which this user may be allowed
		return q.fail(err)
	case c.groups:
		return c.runGroups(ctx, q, f, byStore, recorded, groups)
	case byStore:
		fmt.Fprintln(c.Err, "newest first, "+q.provenance(*recorded, time.Now()))
	}
	read := min(c.limit, math.MaxInt-1)
	if c.limit > 0 && f.Everything() {
		read++ // tells whether there are more
	}
	messages, _, err := c.messages(ctx, q, f, read, c.records || byStore)
	if err != nil {
		return err
	}
	return c.printed(q, f, c.limit, messages, render.DeadLetters(c.Out, c.json))
}

// noteBlocked says why dead letters of blocked lanes have no reason. The list is complete without it, so errors are not
// reported.
func (q *dlq) noteBlocked(ctx context.Context) {
	if q.store == nil {
		return
	}
	n := 0
	for _, at := range q.lanesIn() {
		if b, err := q.store.Admin().Blocked(ctx, q.broker.VHost, at, 0); err == nil {
			n += int(b.Count)
		}
	}
	if n > 0 {
		fmt.Fprintf(q.stderr, "%s in blocked lanes had no attempt and no record: strikes lane list %s\n",
			printable.Plural(n, "dead letter"), shell.Operands(q.queue))
	}
}

// printed prints the dead letters that were found, and reports the ids that were not.
func (c *deadList) printed(q *dlq, f deadletter.Filter, limit int, messages iter.Seq2[*deadletter.Message, error],
	out render.List[*deadletter.Message]) error {
	want, n, others := seek(f), 0, 0
	defer func() {
		if others > 0 {
			fmt.Fprintf(c.Err, "%d of these died in other queues: an ID or a filter picks those of queue %s alone, and "+
				"--origin QUEUE those of another\n", others, printable.Name(q.queue))
		}
	}()
	var err error
	for l, failed := range messages {
		switch {
		case limit > 0 && n == limit && failed != nil: // it is not about those that are listed
			return q.fail(c.cut(out, "there may be more"))
		case limit > 0 && n == limit:
			return q.fail(c.cut(out, "there are more"))
		}
		if err = failed; err != nil {
			break
		}
		want.saw(l)
		if f.Everything() && l.Queue != "" && l.Queue != q.queue && l.Origin.Queue != q.queue {
			others++
		}
		if err := out.Row(l); err != nil {
			return q.fail(err)
		}
		if n++; n == limit && !f.Everything() { // the next match may be far away
			return q.fail(c.cut(out, "there may be more"))
		}
	}
	if flushed := out.Flush(); flushed != nil {
		err = errors.Join(flushed, err)
	}
	switch {
	case errors.Is(err, deadletter.ErrBusy) && q.store != nil:
		err = fmt.Errorf("%w; --records lists what the store knows of them", err)
	case err == nil && n == 0:
		err = q.none(want)
	case err == nil:
		err = want.missing(q.dead.Name)
	}
	return q.fail(err)
}

// cut ends a list at its limit.
func (c *deadList) cut(out render.List[*deadletter.Message], more string) error {
	if err := out.Flush(); err != nil {
		return err
	}
	return c.Cut(c.limit, "dead letter", more)
}

// messages yields those in the queue where reading is harmless, else those of the store's records. It stops reading the
// queue once limit are picked; 0: never. The source may change while it yields.
func (c *deadList) messages(ctx context.Context, q *dlq, f deadletter.Filter, limit int,
	records bool) (all iter.Seq2[*deadletter.Message, error], source *render.Source, err error) {
	if !records && q.dead.Handling.Hold {
		q.sayReading(limit == 0 || !f.Everything()) // the next match may be far away
		source = new(render.FromQueue)
		return func(yield func(*deadletter.Message, error) bool) {
			for l, err := range q.dead.BrowsePart(ctx, f, deadletter.Bounds{Picked: limit}) {
				unreadable := errors.Is(err, deadletter.ErrUndecodable) || errors.Is(err, deadletter.ErrWorn)
				if unreadable && q.store != nil { // for a reason that lies in one of its messages
					fmt.Fprintf(c.Err, "%s\nThe following is from the store's records; messages may have left the queue since.\n",
						printable.Text(cli.Plain(q.wayOut(err)), ""))
					*source = render.FromStore
					q.records().EachDead(ctx, f)(yield)
					return
				}
				if errors.Is(err, deadletter.ErrUnread) || !yield(l, err) {
					return
				}
			}
		}, source, nil
	}
	if q.store == nil {
		return nil, nil, cli.Misusef("queue %s is not read: %s", q.where(), q.dead.Handling.Why)
	}
	if !records {
		has := "Another consumer holds some or all of its messages"
		switch q.unseen, err = q.dead.Depth(ctx); {
		case errors.Is(err, deadletter.ErrBusy):
			q.held = err
		case err != nil:
			return nil, nil, q.fail(err)
		default:
			has = "It has " + printable.Plural(q.unseen, "message")
		}
		fmt.Fprintf(c.Err, "queue %s is not read: %s.\n%s. The following is from the store's records; messages may have "+
			"left the queue since.\n",
			q.where(), printable.Text(q.dead.Handling.Why, ""), has)
	}
	return q.records().EachDead(ctx, f), new(render.FromStore), nil
}

// sayReading says that a command reads messages and leaves them in the queue. It does so only if the command may read
// all, and that takes long.
func (q *dlq) sayReading(all bool) {
	if q.ready > tedious && all && q.dead.Handling.Hold {
		fmt.Fprintf(q.stderr, "reading the %d messages of queue %s, which stay there if you interrupt this\n", q.ready,
			q.where())
	}
}

// tedious is how many dead letters take more than half a second to read.
const tedious = 5000

// searched is how many dead letters are read without being asked for: a longer queue takes long, and a quorum queue
// counts it.
const searched = 500

// runGroups prints the dead letters by kind and reason. It counts the store's records if byStore is set.
func (c *deadList) runGroups(ctx context.Context, q *dlq, f deadletter.Filter, byStore bool, recorded *int,
	groups func() (ops.Groups, error)) error {
	messages, source, err := c.messages(ctx, q, f, 0, c.records || byStore)
	if err != nil {
		return err
	}
	out := render.Groups(c.Out, c.json, c.limit, source)
	if out.Recorded = recorded; q.ready >= 0 {
		out.Ready = &q.ready
	}
	if *source == render.FromQueue {
		return c.groupsPrinted(out, c.printed(q, f, 0, messages, out))
	}
	if byStore && !c.records {
		fmt.Fprintln(c.Err, q.provenance(*recorded, time.Now()))
	}
	counted, err := groups()
	switch {
	case err != nil:
		return q.fail(err)
	case counted.Count == 0:
		return q.nothing(seek(f))
	}
	return c.groupsPrinted(out, out.Print(counted.Groups))
}

// answers reports whether the store's records answer, although the queue could be read. It also returns their number.
func (q *dlq) answers(ctx context.Context, f deadletter.Filter) (yes bool, recorded *int, err error) {
	n, err := q.store.Admin().CountDead(ctx, q.broker.VHost, q.queue)
	// A short queue is read, because the records may belong to other messages. In a long queue a tenth of the messages
	// may lack a record.
	few := q.ready >= 0 && (q.ready <= searched || n < q.ready-q.ready/10)
	if err != nil || few || n == 0 || !q.dead.Handling.Hold {
		return false, &n, err
	}
	if f.Group == "" && len(f.IDs) == 0 {
		return true, &n, nil
	}
	want := seek(f) // a group or an id without a record may be in the queue
	for m, err := range q.records().EachDead(ctx, f) {
		if err != nil || len(f.IDs) == 0 {
			return err == nil, &n, err
		}
		want.saw(m)
	}
	return len(f.IDs) > 0 && want.names() == "", &n, nil
}

// groupsPrinted says that there are more groups, and returns err.
func (c *deadList) groupsPrinted(out *render.GroupList, err error) error {
	if out.Cut {
		err = cmp.Or(err, c.Cut(c.limit, "group", "there are more"))
	}
	return err
}

// provenance names the source of a list or of the groups, its time, and the dead letters that the store does not have.
func (q *dlq) provenance(recorded int, now time.Time) string {
	from := "from the store's records at " + now.UTC().Format(time.RFC3339)
	if q.ready < 0 {
		return fmt.Sprintf("%s; the messages of queue %s could not be counted", from, q.where())
	}
	holds := fmt.Sprintf("queue %s holds %s", q.where(), printable.Plural(q.ready, "message"))
	if q.ready == recorded {
		holds += ", but they may be others"
	}
	return fmt.Sprintf("%s: there are %d; %s; --read reads the queue", from, recorded, holds)
}
