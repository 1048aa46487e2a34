package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/reason"
	"github.com/strikesmq/strikes/ops"
)

// deadWhere says where dead letters are.
type deadWhere struct {
	cli.Streams
	connect.Flags

	deadLetterQueue string
	noStore, force  bool
}

// deadFilter says which dead letters are meant.
type deadFilter struct{ picks deadletter.Filter }

// deadChange says how the dead-letter queue is changed.
type deadChange struct {
	deadWhere
	deadFilter
	note

	all, dryRun, yes, json bool
	most                   int // --max
}

func (a *app) deadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dead", Short: "show, replay and drop the dead letters of a queue",
		Example: `  strikes dead list orders --groups
  strikes dead show orders order-17
  strikes dead replay orders order-17`,
		Long: "strikes help dead-letters says where they are, and why they died.",
	}
	cmd.AddCommand(a.deadListCommand(), a.deadShowCommand(), a.deadReplayCommand(), a.deadDropCommand())
	return cmd
}

func (c *deadWhere) addTo(cmd *cobra.Command) {
	c.addServers(cmd)
	cmd.Flags().BoolVar(&c.noStore, "no-store", false, "do not use the store: no counts, no errors of handlers, no stop "+
		"when messages fail again, no refusal of blocked lanes; strikes status may report what is taken off as missing")
}

// addServers adds the flags of all that read a dead-letter queue.
func (c *deadWhere) addServers(cmd *cobra.Command) {
	c.AddRecords(cmd)
	c.AddManagement(cmd)
	addDeadLetterQueue(cmd.Flags(), &c.deadLetterQueue)
	cmd.Flags().BoolVar(&c.force, "force", false, "go on even if that may do harm; only a queue with a low delivery "+
		"limit is still not read")
}

// yesText is the help of --yes.
const yesText = "do not ask; required where there is no terminal to ask at"

func (c *deadFilter) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.picks.Reason, "error", "", "only those whose last error contains `TEXT`, in any case")
	var kinds []string
	for _, k := range deadletter.Kinds() {
		kinds = append(kinds, string(k))
	}
	cli.OneOf(cmd, &c.picks.Kind, "kind", "only those of a `KIND`: "+strings.Join(kinds, ", "), deadletter.Kinds()...)
	f.StringVar(&c.picks.Group, "group", "", "only those of the group with this `KEY`, which dead list --groups shows")
	cli.Age(f, &c.picks.Older, "older-than", "only those that died this `TIME` ago, or earlier: 90s, 12h or 7d")
	cli.Age(f, &c.picks.Newer, "newer-than", "only those that died within this `TIME`")
	f.StringVar(&c.picks.Queue, "origin", "", "those that died in this `QUEUE`, which shares the dead-letter queue")
}

func (c *deadChange) addTo(cmd *cobra.Command, done string) {
	c.deadWhere.addTo(cmd)
	c.deadFilter.addTo(cmd)
	f := cmd.Flags()
	f.Lookup("force").Usage += "; and take dead letters of blocked lanes, which lose their order"
	f.BoolVar(&c.all, "all", false, "all dead letters, if nothing else says which")
	f.IntVar(&c.most, "max", 0, "stop after `N`; 0: no limit")
	f.BoolVar(&c.dryRun, "dry-run", false, "only say what would be "+done)
	f.BoolVar(&c.yes, "yes", false, yesText)
	c.addAudit(cmd)
}

// addDeadLetterQueue adds --dead-letter-queue, or --dlq.
func addDeadLetterQueue(f *pflag.FlagSet, name *string) {
	f.StringVar(name, "dead-letter-queue", "", "the dead-letter queue's `NAME`; --dlq for short")
	cli.FromEnv(f, "dead-letter-queue")
	cli.DefaultText(f, "dead-letter-queue", "found")
}

// filter reads which dead letters are meant: with a condition those of the queue, because others may share its
// dead-letter queue, and ids repeat in them. Without the store it refuses conditions on facts that only the store
// knows.
func (c *deadFilter) filter(w *deadWhere, queue string, ids []string) (deadletter.Filter, error) {
	f := c.picks
	if f.IDs = ids; !f.Everything() && f.Queue == "" {
		f.Source = queue
	}
	// whether the dead letter itself shows all facts that the filter asks for
	ofTheBroker := f.Reason == "" && f.Group == "" && slices.Contains([]deadletter.Kind{deadletter.KindDeliveryLimit,
		deadletter.KindExpired, deadletter.KindOverflow}, f.Kind)
	switch {
	case w.Changed("error") && deadletter.Sought(f.Reason) == "":
		return f, cli.Refused("error", f.Reason, "a text of which more than blanks and … is left")
	case w.Changed("origin") && f.Queue == "":
		return f, cli.Refused("origin", f.Queue, "the name of a queue")
	case w.Changed("group") && !reason.IsKey(f.Group):
		return f, cli.Refused("group", f.Group, "one of the keys that dead list --groups shows")
	case f.Older < 0 || f.Newer < 0:
		return f, cli.Misusef("--older-than and --newer-than must not be negative")
	case f.Newer > 0 && f.Newer < f.Older:
		return f, cli.Misusef("--newer-than must not be less than --older-than, got %v and %v", f.Newer, f.Older)
	case w.noStore && f.NeedsRecords() && !ofTheBroker:
		return f, cli.Misusef("--no-store cannot be used with --error or --group, or with a --kind that only the store knows")
	}
	return f, nil
}

// wanted is a filter, and the ids and fingerprints of the messages that were seen, if it asks for some by name.
type wanted struct {
	deadletter.Filter
	found map[string]bool
}

func seek(f deadletter.Filter) *wanted { return &wanted{f, map[string]bool{}} }

func (s *wanted) saw(l *deadletter.Message) {
	if len(s.IDs) > 0 {
		s.found[l.ID], s.found[l.Fingerprint] = true, true
	}
}

// names are the ids that were not found, the first of them, as a list that follows a colon; empty if there are none.
func (s *wanted) names() string {
	var missing []string
	for _, id := range s.IDs {
		if !s.found[id] && !slices.Contains(missing, id) {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return ":" + shownIDs(missing, 20)
}

// shownIDs lists the first of some ids for a line of text, each after a space.
func shownIDs(ids []string, most int) string {
	var b strings.Builder
	for _, id := range ids[:min(most, len(ids))] {
		b.WriteString(" " + printable.Name(id))
	}
	if len(ids) > most {
		b.WriteString(" …")
	}
	return b.String()
}

// missing returns an error that names the ids that were not found; nil if none was found, which none reports.
func (s *wanted) missing(where string) error {
	if names := s.names(); names != "" && len(s.found) > 0 {
		return cli.WithCode(fmt.Errorf("not found in %s%s; the others were found", where, names), cli.ExitNothing)
	}
	return nil
}

// verb has the words of the question that a replay or a drop asks.
type verb struct {
	verb, done, where string
	filter            deadletter.Filter

	instead, does string // the verb of lane that keeps the order of blocked lanes, and its effect on a lane
}

// agreed asks whether to go on. It returns the most dead letters that the change may take, or 0 for all: others may
// have come while it asked. With --dry-run it only says how many it would be, and returns false. It refuses blocked
// lanes, also those that were blocked while it asked.
func (c *deadChange) agreed(ctx context.Context, q *dlq, v verb) (most int, ok bool, err error) {
	lanes := c.lanesOf(ctx, q, v.filter)
	if err := c.refuseBlocked(ctx, q, lanes, v); err != nil {
		return 0, false, err
	}
	dry, yes := c.dryRun, c.yes
	if yes && !dry {
		return c.most, true, nil
	}
	if q.ready == 0 {
		return 0, false, q.nothing(seek(v.filter))
	}
	if !dry && (!term.IsTerminal(c.In) || !term.IsTerminal(c.Err)) {
		return 0, false, c.Confirm(ctx, false, true, "") // which refuses
	}
	want := seek(v.filter)
	n, err := c.count(ctx, q, v, want)
	if err != nil {
		return 0, false, q.fail(err)
	}
	if n == 0 {
		return 0, false, q.nothing(want)
	}
	if dry {
		fmt.Fprintf(c.Err, "%d would be %s%s\n", n, v.done, v.where)
		if reached(c.most, n) {
			return 0, false, nil
		}
		return 0, false, want.missing("queue " + q.where())
	}
	question := fmt.Sprintf("%s %s of queue %s%s?", strings.ToUpper(v.verb[:1])+v.verb[1:],
		printable.Plural(n, "dead letter"), q.where(), v.where)
	if err := c.Confirm(ctx, false, true, question); err != nil {
		return 0, false, err
	}
	return n, true, c.refuseBlocked(ctx, q, lanes, v)
}

// count counts the dead letters that are meant, and lists them with --dry-run.
func (c *deadChange) count(ctx context.Context, q *dlq, v verb, want *wanted) (n int, err error) {
	list := c.dryRun && q.dead.Handling.Hold
	if v.filter.Everything() && !list {
		if h := q.dead.Handling; !h.Take {
			return 0, fmt.Errorf("%w to take from queue %q: %s", deadletter.ErrUnsafe, q.dead.Name, h.Why)
		}
		n, err = q.dead.Depth(ctx)
		if c.most > 0 {
			n = min(n, c.most)
		}
		return n, err
	}
	to, end := unheld(c.Out)
	out := render.DeadLetters(to, c.json)
	q.sayReading(true)
	for l, failed := range q.dead.Browse(ctx, v.filter) {
		if err = failed; err != nil {
			break
		}
		want.saw(l)
		if list {
			err = out.Row(l)
		}
		if n++; err != nil || n == c.most {
			break
		}
	}
	return n, errors.Join(err, out.Flush(), end())
}

// unheld returns a writer for the texts that are printed while Browse holds messages, and a function to call when
// Browse has returned them. If out is no terminal, the texts are printed only then. A slow pager would keep the
// messages from others, and a closed pipe would end the command, which changes their order.
func unheld(out io.Writer) (to io.Writer, end func() error) {
	if term.IsTerminal(out) {
		return out, func() error { return nil }
	}
	var all bytes.Buffer
	return &all, func() error { _, err := all.WriteTo(out); return err }
}

// chosen returns the filter of a change. It refuses to change all dead letters without --all.
func (c *deadChange) chosen(queue string, ids []string) (deadletter.Filter, error) {
	f, err := c.filter(&c.deadWhere, queue, ids)
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

// audit returns functions for the audit log: begin writes the beginning of a change, once, and end the result. If
// nothing began, as when no dead letter matches, there is no entry.
func (q *dlq) audit(ctx context.Context, why counter.Note, verb, subject string) (begin func(),
	end func(done int, err error)) {
	if q.store == nil {
		return func() {}, func(int, error) {}
	}
	log := ops.Queue{Store: q.store.Admin(), VHost: q.broker.VHost, Name: q.queue, Warn: unaudited(q.stderr)}
	e, begun := counter.AuditEntry{Actor: why.By, Verb: verb, Subject: subject, Reason: why.Why}, false
	begin = func() {
		if !begun {
			e.Result, begun = ops.ResultBegun, true
			log.Audit(ctx, e, nil)
		}
	}
	return begin, func(done int, err error) {
		if begun {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				err = errors.New("interrupted")
			}
			e.Result, e.Count = "", int64(done)
			log.Audit(ctx, e, err)
		}
	}
}

// filterText says which dead letters a filter means, as the flags do. An id that the console would read as a filter,
// such as all or group=x, is quoted.
func filterText(f deadletter.Filter, most int) string {
	var words []string
	for _, id := range f.IDs {
		if id == "all" || strings.Contains(id, "=") {
			id = strconv.Quote(id)
		}
		words = append(words, id)
	}
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag+" "+value)
		}
	}
	add("--error", f.Reason)
	add("--group", f.Group)
	add("--kind", string(f.Kind))
	add("--origin", f.Queue)
	if f.Older > 0 {
		add("--older-than", f.Older.String())
	}
	if f.Newer > 0 {
		add("--newer-than", f.Newer.String())
	}
	if most > 0 {
		add("--max", fmt.Sprint(most))
	}
	return cmp.Or(strings.Join(words, " "), "--all")
}
