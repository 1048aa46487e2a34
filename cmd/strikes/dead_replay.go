package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/publisher"
)

// deadReplay is one run of dead replay.
type deadReplay struct {
	deadChange

	set deadletter.Replay // by the flags
}

func (a *app) deadReplayCommand() *cobra.Command {
	c := deadReplay{deadChange: deadChange{deadWhere: deadWhere{Streams: a.Streams}}}
	cmd := &cobra.Command{
		Use: "replay QUEUE [ID…]", Short: "publish dead letters again, with all attempts",
		Example: `  strikes dead replay orders order-17 order-18
  strikes dead replay orders --group 34fqn6qw --rate 5
  strikes dead replay orders --error "connection refused" --dry-run
  strikes dead replay orders --all --why "the bank is back"`,
		Long: `Each goes to the queue in which it died. It leaves the dead-letter queue once
the broker has confirmed its copy. If the command is killed, at most --window
messages are in both queues, under one id.

It stops when --stop-after replayed messages have failed again, and then, or if
any has failed again when --watch ends, exits with 1. It does not see a later
failure, nor any with --stop-after 0. A dead letter that does not say where it
died, or whose queue does not exist, stays in the dead-letter queue (exit 1):
drop it to a file, and publish that. strikes help dead-letters explains IDs and
kinds.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1:]) },
	}
	c.addTo(cmd, "replayed")
	f := cmd.Flags()
	f.IntVar(&c.set.Window, "window", 1, "publish `N` before the first is confirmed; with a choice of dead letters, "+
		"16 at most")
	f.Float64Var(&c.set.Rate, "rate", 0, "replay `N` a second at most; 0: no limit")
	f.IntVar(&c.set.StopAfter, "stop-after", 5, "stop when `N` of the replayed messages have failed again; 0: never")
	cli.JSON(f, &c.json, "print one JSON object a dead letter")
	f.DurationVar(&c.set.Watch, "watch", 2*time.Second, "see for this `TIME` whether the last ones fail again")
	return cmd
}

// run publishes dead letters again, and watches whether they fail again.
func (c *deadReplay) run(ctx context.Context, queue string, ids []string) error {
	r, err := c.settings(queue, ids)
	if err != nil {
		return err
	}
	q, err := c.open(ctx, queue)
	if err != nil {
		return err
	}
	defer q.close()
	if !c.dryRun && q.ready > 0 {
		q.warnIdle(ctx, queue, q.queue, 0)
	}
	v := verb{"replay", "replayed", " to the queues in which they died", r.Filter, "replay", "replays"}
	most, ok, err := c.agreed(ctx, q, v)
	if err != nil || !ok {
		return err
	}
	r.Max = most
	begin, end := q.audit(ctx, c.given(), v.verb, filterText(v.filter, c.most))
	r.OnBegin = func() error { begin(); return nil }
	q.warnInterrupt(r.Filter)
	t := &report{Streams: c.Streams, want: seek(r.Filter)}
	if c.json {
		t.json = jsonl.NewEncoder(c.Out)
	}
	r.OnMessage = t.message
	result, err := q.dead.Replay(ctx, r)
	end(result.Done, err)
	fmt.Fprintln(c.Err, replaySummary(result))
	if t.strays > 0 {
		fmt.Fprintf(c.Err, "%d left because they do not say where they died; dead drop --to FILE takes them, and publish "+
			"--ndjson QUEUE <FILE publishes them\n", t.strays)
	}
	q.warnUnrecorded(result.RecordsErr)
	if err = cmp.Or(err, t.failed); err != nil {
		return q.fail(c.goOn(err, result.Done))
	}
	if result.Done+result.Left == 0 {
		return q.nothing(t.want)
	}
	if result.Left > 0 {
		err = fmt.Errorf("left in queue %q: %s", q.dead.Name, printable.Plural(result.Left, "dead letter"))
	}
	if len(result.FailedAgain) > 0 {
		err = cmp.Or(err, fmt.Errorf("%w; repair the cause, then replay them", deadletter.ErrFailingAgain))
	}
	if reached(c.most, result.Done+result.Left) {
		return err
	}
	missing := t.want.missing("queue " + q.where())
	if err != nil && missing != nil {
		return cli.WithCode(fmt.Errorf("%w; %w", err, missing), cli.ExitCode(err))
	}
	return cmp.Or(err, missing)
}

// settings reads how to replay.
func (c *deadReplay) settings(queue string, ids []string) (deadletter.Replay, error) {
	f, err := c.chosen(queue, ids)
	if err != nil {
		return deadletter.Replay{}, err
	}
	r := c.set
	r.Filter, r.Max = f, c.most
	switch {
	case r.Window < 1 || r.Window > deadletter.MaxWindow:
		return r, cli.Refused("window", r.Window, fmt.Sprint("1 to ", deadletter.MaxWindow))
	case !(r.Rate >= 0): // as NaN is not
		return r, cli.Refused("rate", r.Rate, "0 or more")
	case r.StopAfter < 0 || r.Watch < 0:
		return r, cli.Misusef("--stop-after and --watch must not be negative")
	}
	r.StopAfter = cmp.Or(r.StopAfter, -1) // never
	return r, nil
}

func replaySummary(r deadletter.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d replayed", r.Done)
	if r.Left > 0 {
		fmt.Fprintf(&b, ", %d left", r.Left)
	}
	name(&b, "undecided: maybe published, maybe still in the dead-letter queue", len(r.Undecided), r.Undecided)
	name(&b, "failed again", len(r.FailedAgain), r.FailedAgain)
	return b.String()
}

// report reports each dead letter: all of them in JSON, else those that are left.
type report struct {
	cli.Streams
	json *json.Encoder
	left int
	want *wanted

	failed error // the first of printing

	strays int // of those left
}

// leftShown is how many of those that are left are named.
const leftShown = 20

// message reports one dead letter.
func (t *report) message(l *deadletter.Message, err error) {
	t.want.saw(l)
	if errors.Is(err, deadletter.ErrNoOrigin) {
		t.strays++
	}
	if t.json != nil {
		out := map[string]any{"id": l.ID, "fingerprint": l.Fingerprint, "replayed": err == nil}
		if err != nil {
			out["error"] = cli.Plain(err)
		}
		t.failed = cmp.Or(t.failed, t.json.Encode(out)) // as of a full disk; a closed pipe ends the process by SIGPIPE
		return
	}
	ends := !errors.Is(err, deadletter.ErrNoOrigin) && !errors.Is(err, publisher.ErrUnroutable) &&
		!errors.Is(err, publisher.ErrInvalid)
	if err == nil || ends { // an error that ends the replay is reported at its end
		return
	}
	if t.left++; t.left <= leftShown {
		fmt.Fprintf(t.Err, "not replayed: %s\n", printable.Text(cli.Plain(err), ""))
	}
}

// name names the first of some messages.
func name(b *strings.Builder, matter string, n int, ids []string) {
	if n == 0 {
		return
	}
	fmt.Fprintf(b, "\n%d %s:%s", n, matter, shownIDs(ids, 5))
}
