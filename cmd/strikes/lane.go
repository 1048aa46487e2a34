package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/ops"
)

// lanes is one run of a verb on blocked lanes.
type lanes struct {
	deadWhere
	note

	all, missing bool
	wait         time.Duration // replay and release
	to           string        // release and drop
	dryRun, yes  bool
	json         bool
}

func (a *app) laneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "lane", Short: "work on the lanes that dead letters block",
		Example: "  strikes lane list orders\n  strikes lane replay orders customer-7",
		Long: `Once a message of a lane is dead-lettered, a consumer with --hold-lanes
dead-letters the later ones too, without an attempt. LANE is the value of the
header that consume --lane-header names, or the routing key in a queue with
partitions. The consumer continues while a lane is replayed. Put a LANE that
begins with - after --.`,
	}
	cmd.AddCommand(a.laneListCommand(), a.laneReplayCommand(), a.laneReleaseCommand(), a.laneDropCommand())
	return cmd
}

func (a *app) laneListCommand() *cobra.Command {
	c, most := a.storeVerb(), 0
	cmd := &cobra.Command{
		Use: "list QUEUE", Short: "list the blocked lanes of a queue, longest blocked first",
		Example: "  strikes lane list orders",
		Long: `BLOCKED BY is the message that must be handled or dropped next, by its
fingerprint (fp:…) if it has no id. "(in the queue again)" means that it was
replayed and no consumer has handled it yet. MESSAGES counts those of the lane
that are neither handled nor dropped.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.lanes(cmd.Context(), args[0], most) },
	}
	cmd.Flags().IntVar(&most, "limit", 100, "list `N` at most, those that are blocked longest; 0: all")
	c.addOutput(cmd, "print one JSON object a lane")
	return cmd
}

func (a *app) laneReplayCommand() *cobra.Command {
	c := lanes{deadWhere: deadWhere{Streams: a.Streams}}
	cmd := &cobra.Command{
		Use: "replay QUEUE [LANE]", Short: "publish a lane's dead letters again, in order",
		Example: `  strikes lane replay orders customer-7
  strikes lane replay orders --all --why "the bank is back"`,
		Long: `The message that blocks the lane is published first, alone. If it fails again
the command ends (exit 1), and the lane stays blocked. You may interrupt and
repeat it at any time. The lane is released when its last message is handled.

--all replays every blocked lane of the queue, and reads the dead-letter queue
for many together; a lane that stays blocked does not keep it from the others.
strikes help dead-letters says where the dead letters are.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.replay(cmd.Context(), args) },
	}
	c.addTo(cmd)
	cmd.Flags().BoolVar(&c.all, "all", false, "replay every blocked lane of the queue, longest blocked first")
	c.addWait(cmd)
	cmd.Flags().BoolVar(&c.missing, "missing", false, "give up each message whose dead letter is not in the dead-letter "+
		"queue: it expired, was consumed elsewhere or was lost, or it was handled before the store was rolled back")
	return cmd
}

func (a *app) laneReleaseCommand() *cobra.Command {
	c := lanes{deadWhere: deadWhere{Streams: a.Streams}}
	cmd := &cobra.Command{
		Use: "release QUEUE LANE", Short: "drop the message that blocks a lane, replay the rest",
		Example: "  strikes lane release orders customer-7 --to dropped.ndjson",
		Long: `The message is written to the file of --to, as dead drop does it. Those after it
are replayed. --missing also gives up each message after it that is missing. If
release was interrupted after its drop, go on with lane replay: another release
drops the next message.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.change(cmd.Context(), ops.VerbRelease, args[0], args[1])
		},
	}
	c.addTo(cmd)
	c.addWait(cmd)
	c.addDrop(cmd)
	return cmd
}

func (a *app) laneDropCommand() *cobra.Command {
	c := lanes{deadWhere: deadWhere{Streams: a.Streams}}
	cmd := &cobra.Command{
		Use: "drop QUEUE LANE", Short: "drop all messages of a lane, which releases it",
		Example: "  strikes lane drop orders customer-7 --to dropped.ndjson",
		Long:    "The messages are written to the file of --to, as dead drop does it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.change(cmd.Context(), ops.VerbDrop, args[0], args[1])
		},
	}
	c.addTo(cmd)
	c.addDrop(cmd)
	return cmd
}

// addTo adds the flags of a verb that changes a lane.
func (c *lanes) addTo(cmd *cobra.Command) {
	c.addServers(cmd)
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "only say what would be done")
	cmd.Flags().BoolVar(&c.yes, "yes", false, yesText)
	cli.JSON(cmd.Flags(), &c.json, "print the result as one JSON object")
	c.addAudit(cmd)
}

// addWait adds the flags of a verb that replays.
func (c *lanes) addWait(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.wait, "wait", time.Minute,
		"wait for this `TIME` until the consumer handles the next message")
}

// addDrop adds the flags of a verb that drops.
func (c *lanes) addDrop(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.missing, "missing", false, "also give up messages that are not in the dead-letter queue: "+
		"they expired, were consumed elsewhere, were lost, or were replayed and still wait in the work queue, where they "+
		"are then acked without an attempt")
	cmd.Flags().StringVar(&c.to, "to", "", "append dropped messages to `FILE`; each is on disk before it is taken off; "+
		"required without --dry-run")
}

// lanes lists the blocked lanes of a queue.
func (c *storeVerb) lanes(ctx context.Context, queue string, limit int) error {
	if limit < 0 {
		return cli.Refused("limit", limit, "0 or more")
	}
	return c.withQueue(ctx, queue, func(q *ops.Queue) error {
		most := cmp.Or(limit, math.MaxInt)
		held, all, err := ops.Lanes(ctx, q.Store, q.VHost, []string{queue}, most)
		if err == nil && (all == 0 || broker.MayPartition(queue) != "") { // a partitioned queue has none itself
			of, n, missing := c.Partitions(ctx, queue)
			notePartition(c.Err, queue, of)
			switch {
			case of == queue:
				held, all, err = ops.Lanes(ctx, q.Store, q.VHost, broker.Partitions(queue, n), most)
			case all == 0:
				err = missing
			}
		}
		if err != nil {
			return err
		}
		if all == 0 {
			return cli.WithCode(fmt.Errorf("queue %s has no blocked lane", printable.Name(queue)), cli.ExitNothing)
		}
		if err := render.All(render.Lanes(c.Out, c.json), held); err != nil {
			return err
		}
		if limit > 0 && all > limit {
			fmt.Fprintf(c.Err, "%d of %d blocked lanes, longest blocked first: --limit 0 lists all\n", len(held), all)
		}
		return nil
	})
}

// replay publishes the dead letters of a lane in their order, until it is released. With --all it does so for every
// lane, and args has the queue alone.
func (c *lanes) replay(ctx context.Context, args []string) error {
	queue := args[0]
	switch {
	case c.all && len(args) > 1:
		return cli.Misusef("give LANE or --all, not both")
	case c.all:
		return c.replayAll(ctx, queue)
	case len(args) < 2:
		return cli.Misusef("LANE is missing (--all replays every blocked lane); strikes lane list %s shows the lanes",
			shell.Operands(queue))
	}
	return c.change(ctx, ops.VerbReplay, queue, args[1])
}

// replayAll replays the blocked lanes of a queue, the longest blocked first. If one stays blocked, it goes on with
// the others, unless the queue has no consumer.
func (c *lanes) replayAll(ctx context.Context, queue string) error {
	if c.wait <= 0 {
		return cli.Refused("wait", c.wait, "more than 0")
	}
	q, err := c.open(ctx, queue)
	if err != nil {
		return err
	}
	defer q.close()
	held, _, err := ops.Lanes(ctx, q.store.Admin(), q.broker.VHost, q.lanesIn(), math.MaxInt)
	if err != nil {
		return err
	}
	if len(held) == 0 {
		return cli.WithCode(fmt.Errorf("queue %s has no blocked lane", printable.Name(queue)), cli.ExitNothing)
	}
	if c.dryRun {
		fmt.Fprintf(c.Err, "%s of queue %s would be replayed\n", printable.Plural(len(held), "blocked lane"),
			printable.Name(queue))
		return render.All(render.Lanes(c.Out, c.json), held)
	}
	q.warnIdle(ctx, queue, q.queue, c.wait)
	text := fmt.Sprintf("Queue %s has %s. Replay them?", printable.Name(queue),
		printable.Plural(len(held), "blocked lane"))
	if err := c.Confirm(ctx, c.yes, false, text); err != nil {
		return err
	}
	begin, end := q.audit(ctx, c.given(), ops.VerbReplay, "all lanes")
	begin()
	released, replayed := 0, 0
	var work []deadletter.Lane
	for _, l := range held {
		work = append(work, deadletter.Lane{Queue: l.Queue, Name: l.Lane, Store: q.store.Admin(), Missing: c.missing,
			Wait: c.wait})
	}
	err = q.dead.ReplayLanes(ctx, work, func(l deadletter.Lane, result deadletter.LaneResult, err error) error {
		replayed += result.Replayed + result.Dropped
		if result.Released {
			released++
		}
		if reported := c.reportLane(ops.VerbReplay, l.Name, result); reported != nil {
			return reported
		}
		next := errors.Is(err, deadletter.ErrLaneFailed) || errors.Is(err, deadletter.ErrLaneMissing) ||
			errors.Is(err, deadletter.ErrLaneBusy) || // it concerns this lane only
			errors.Is(err, deadletter.ErrLaneWaiting) && q.isConsumed(ctx, l.Queue)
		if !next {
			return err
		}
		fmt.Fprintln(c.Err, printable.Text(explainLane(err, ops.VerbReplay, queue, l.Name).Error(), ""))
		return nil
	})
	if err == nil && released < len(held) {
		err = fmt.Errorf("%d of %s of queue %s stay blocked", len(held)-released, printable.Plural(len(held), "lane"),
			printable.Name(queue))
	}
	end(replayed, err)
	return q.fail(explainLane(goOn(err, sameCommand), ops.VerbReplay, queue, ""))
}

// warnIdle warns if a queue, which may be a partition of another one, is paused or has no consumer, because replayed
// messages then wait in it. If wait is not zero, the command waits for each of them to be handled.
func (q *dlq) warnIdle(ctx context.Context, queue, of string, wait time.Duration) {
	var state counter.QueueState
	if q.store != nil { // if it does not answer, the replay says so
		state, _ = q.store.Admin().State(ctx, q.broker.VHost, of)
	}
	var text string
	switch {
	case state.Paused != nil:
		text = fmt.Sprintf("queue %s is paused: replayed messages wait there until it is resumed", printable.Name(of))
	case !q.isConsumed(ctx, queue):
		text = fmt.Sprintf("queue %s has no consumer: replayed messages wait there until one is started",
			printable.Name(queue))
	default:
		return
	}
	if wait > 0 {
		text += fmt.Sprintf("\nthis command waits %v for the next message to be handled (--wait); if you interrupt it, it "+
			"names the command that goes on", wait)
	}
	fmt.Fprintln(q.stderr, text)
}

// isConsumed reports whether a queue has a consumer, or whether that is not known.
func (q *dlq) isConsumed(ctx context.Context, queue string) bool {
	consumed := true
	_ = q.broker.With(ctx, func(conn *amqp.Connection) error {
		found, now, err := broker.FindQueue(ctx, conn, queue)
		consumed = found != broker.Yes || now.Consumers > 0
		return err
	})
	return consumed
}

// laneChanges are the changes of a lane, by their verbs.
var laneChanges = map[string]struct {
	question, would string
	do              func(*deadletter.Queue, context.Context, deadletter.Lane) (deadletter.LaneResult, error)
}{
	ops.VerbReplay: {"Replay them", "all would be replayed", (*deadletter.Queue).ReplayLane},
	ops.VerbRelease: {"Drop the message that blocks it, and replay those after it",
		"the one that blocks it would be dropped, and those after it replayed", (*deadletter.Queue).ReleaseLane},
	ops.VerbDrop: {"Drop them", "all would be dropped", (*deadletter.Queue).DropLane},
}

// change replays, releases or drops a lane. It writes a message to the file of --to before it drops it, and opens the
// file with the first one.
func (c *lanes) change(ctx context.Context, verb, queue, lane string) error {
	switch {
	case verb != ops.VerbReplay && !c.dryRun && (c.to == "" || c.to == "-"):
		return cli.Misusef("--to FILE is missing; dead letters are written to it before they are dropped")
	case verb != ops.VerbDrop && c.wait <= 0:
		return cli.Refused("wait", c.wait, "more than 0")
	}
	q, err := c.open(ctx, queue)
	if err != nil {
		return err
	}
	defer q.close()
	state, at, err := q.findLane(ctx, lane)
	if err != nil {
		return explainLane(err, verb, queue, lane)
	}
	text := fmt.Sprintf("Lane %s of queue %s has %s", printable.Name(lane), printable.Name(queue),
		printable.Plural(state.Messages, "message"))
	if c.dryRun {
		fmt.Fprintf(c.Err, "%s: %s\n", text, laneChanges[verb].would)
		return nil
	}
	if verb != ops.VerbDrop {
		q.warnIdle(ctx, at, q.queue, c.wait)
	}
	if err := c.Confirm(ctx, c.yes, false, text+". "+laneChanges[verb].question+"?"); err != nil {
		return err
	}
	var file *keepFile
	keep := func(messages []*deadletter.Message) (err error) {
		if file == nil {
			if file, err = openKeep(c.to, q.dead.Name); err != nil {
				return err
			}
		}
		return file.keep(messages)
	}
	begin, end := q.audit(ctx, c.given(), verb, "lane "+lane)
	begin()
	result, err := laneChanges[verb].do(&q.dead, ctx, deadletter.Lane{Queue: at, Name: lane, Store: q.store.Admin(),
		First: state.First(), Missing: c.missing, Wait: c.wait, Keep: keep})
	if file != nil {
		err = errors.Join(err, file.finish())
	}
	end(result.Replayed+result.Dropped, err)
	if reported := c.reportLane(verb, lane, result); err == nil {
		err = reported
	}
	if result.Released {
		if _, other, lost := q.findLane(ctx, lane); other != at && lost == nil {
			fmt.Fprintf(c.Err, "lane %s is still blocked in partition %s: run the same command again\n", printable.Name(lane),
				printable.Name(other))
		}
	}
	if verb == ops.VerbRelease && result.Dropped > 0 { // another release would drop the next message
		verb = ops.VerbReplay
	}
	return q.fail(explainLane(err, verb, queue, lane))
}

// lanesIn names the queues that have the lanes.
func (q *dlq) lanesIn() []string {
	if q.dead.Partitioned == q.queue {
		return broker.Partitions(q.queue, q.dead.Partitions)
	}
	return []string{q.queue}
}

// findLane finds a blocked lane, and the queue or partition that has it. It does not hash the name: a lane need not be
// the routing key.
func (q *dlq) findLane(ctx context.Context, lane string) (state *counter.LaneState, at string, err error) {
	for _, at = range q.lanesIn() {
		state, err = q.store.Admin().Lane(ctx, q.broker.VHost, at, lane)
		if !errors.Is(err, counter.ErrNotBlocked) {
			return state, at, err
		}
	}
	return nil, "", fmt.Errorf("queue %q, lane %q: %w", q.queue, lane, counter.ErrNotBlocked)
}

func (c *lanes) reportLane(verb, lane string, r deadletter.LaneResult) error {
	if c.json {
		return jsonl.NewEncoder(c.Out).Encode(map[string]any{
			"lane": lane, "replayed": r.Replayed, "dropped": r.Dropped, "missing": r.Missing, "doubles": r.Doubles,
			"released": r.Released, "undecided": append([]string{}, r.Undecided...),
		})
	}
	state := "is still blocked"
	if r.Released {
		state = "is released"
	}
	names := ""
	if len(r.Undecided) > 0 {
		names = ":" + shownIDs(r.Undecided, 5)
	}
	_, err := fmt.Fprintf(c.Out, "lane %s %s: %s%s\n", printable.Name(lane), state,
		strings.Join(ops.LaneParts(verb, r), ", "), names)
	return err
}

// lanesOf names the queues that have lanes of the dead letters that a filter picks. It says which other queues a change
// of everything is about. Without the management API these are not known.
func (c *deadChange) lanesOf(ctx context.Context, q *dlq, f deadletter.Filter) []string {
	if f.Source != "" {
		return q.lanesIn()
	}
	need := inspect.Need{Queue: cmp.Or(q.dead.Partitioned, q.queue), Management: q.api.URL, HTTPClient: q.api.Client}
	var others []string
	err := q.broker.With(ctx, func(conn *amqp.Connection) (err error) {
		others, err = ops.Sharing(ctx, conn, need, q.dead.Name)
		return err
	})
	if err != nil && need.Management != "" {
		fmt.Fprintf(c.Err, "whether other queues dead-letter to queue %s is not known: %s\n", q.where(),
			printable.Text(err.Error(), ""))
	}
	if f.Queue != "" {
		others = slices.DeleteFunc(append(others, q.lanesIn()...), func(name string) bool {
			return !broker.IsPartition(name, f.Queue)
		})
		return append(others, f.Queue)
	}
	if len(others) > 0 {
		fmt.Fprintf(c.Err, "all dead letters of queue %s are meant, also those of other queues:%s; --origin QUEUE picks "+
			"those of one\n", q.where(), shownIDs(others, 5))
	}
	all := slices.Concat(others, broker.Partitions(q.dead.Partitioned, q.dead.Partitions), []string{q.queue})
	slices.Sort(all)
	return slices.Compact(all) // q.queue may itself be one of the partitions
}

// refuseBlocked refuses to take dead letters out of the order of blocked lanes.
func (c *deadChange) refuseBlocked(ctx context.Context, q *dlq, lanes []string, v verb) error {
	if q.store == nil || c.force {
		return nil
	}
	first, held, err := ops.Lanes(ctx, q.store.Admin(), q.broker.VHost, lanes, 1)
	if err != nil || held == 0 {
		return err
	}
	at := first[0].Queue
	if broker.IsPartition(at, q.dead.Partitioned) {
		at = q.dead.Partitioned
	}
	return cli.Misusef("queue %s has %s, whose dead letters would lose their order: strikes lane list %[3]s shows them, "+
		"and strikes lane %[4]s %[3]s LANE %[5]s one (--force does it anyway)", printable.Name(at),
		printable.Plural(held, "blocked lane"), shell.Operands(at), v.instead, v.does)
}

// explainLane adds the next command to an error, and gives it its exit code. lane is for an error that is no LaneError.
func explainLane(err error, verb, queue, lane string) error {
	at := &deadletter.LaneError{Lane: lane}
	errors.As(err, &at)
	operand, operands, again := shell.Operands(queue), shell.Operands(queue, at.Lane), sameCommand
	if verb == ops.VerbReplay {
		again = "strikes lane replay " + operands
	}
	giveUp := "strikes lane release --missing --to FILE " + operands
	without := "strikes lane replay --missing " + operands + " replays"
	if verb == ops.VerbDrop {
		giveUp = "strikes lane drop --missing --to FILE " + operands
		without = giveUp + " drops"
	}
	switch {
	case errors.Is(err, counter.ErrNotBlocked):
		return cli.WithCode(fmt.Errorf("%w; strikes lane list %s shows the blocked ones", err, operand), cli.ExitNothing)
	case errors.Is(err, deadletter.ErrLaneFailed):
		return fmt.Errorf("%w; strikes dead show %s shows why; fix that and replay the lane again, or give the message "+
			"up: strikes lane release --to FILE %s", err, shell.Operands(queue, at.ID), operands)
	case errors.Is(err, deadletter.ErrLaneChanged):
		return fmt.Errorf("%w, so none is dropped; strikes lane list %s shows it", err, operand)
	case errors.Is(err, deadletter.ErrLaneMissing):
		return fmt.Errorf("%w; if it expired or was taken by another program, or if the store was rolled back, %s "+
			"the lane without it and all others that are missing", err, without)
	case errors.Is(err, deadletter.ErrLaneWaiting):
		return fmt.Errorf("%w, and those after it in the dead-letter queue; start a consumer, or end the pause that strikes "+
			"status %s shows, then run %s; only if that message was lost, %s gives it up: else it is acked without an attempt",
			err, operand, again, giveUp)
	case errors.Is(err, deadletter.ErrLaneBusy):
		return fmt.Errorf("%w; pause their publishers, then run %s", err, again)
	}
	return goOn(err, again)
}
