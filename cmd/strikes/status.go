package main

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/ops"
)

func (a *app) statusCommand() *cobra.Command {
	o := status{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "status [QUEUE]", Short: "show the messages that block a queue, and its dead letters",
		Example: "  strikes status\n  strikes status orders\n  watch strikes status orders",
		Long: `Without QUEUE, status lists the queues of the virtual host, the worst first.
Only the management API can list them. The delay queues are shared by all
queues: status says how many messages wait in each. "lost" are those that came
back to a queue that was gone. docs/cli.md explains the fields that --json
prints, and the values of state and trouble.

With QUEUE, status lists the messages that are retried: they have failed, and
are not dead-lettered. Those behind them may have to wait. The one that failed
first comes first: in an ordered queue, that is its head. Each lane has a head
of its own, but a record does not name its lane. A message in its first attempt
is not in the store, and only counts as unacked. Messages that wait because
their attempts are not counted are under "waiting".

The store counts the messages that consumers dead-lettered. status compares the
count with the messages in the dead-letter queue, and with those that strikes
dead replay and dead drop took off it. While that queue has a consumer, no
message is reported missing. Messages without an id, and those that the broker
dead-letters by itself, are not counted. Dead letters in blocked lanes are
counted until they are replayed or dropped. If messages are missing, or wait in
a quorum queue for their dead-letter route, status names the defect of the
route. A dead letter is missing until its record expires, or until strikes
counter reset QUEUE ID accepts that it is gone. strikes help dead-letters says
how the queue is found.

Only the management API reports rates, unacked and waiting messages, and those
that others consumed from the dead-letter queue. Its figures are up to 10 s old,
so those of the queue are under "earlier".`,
		RunE: func(cmd *cobra.Command, args []string) error {
			queue := ""
			if len(args) > 0 {
				queue = args[0]
			}
			return o.run(cmd.Context(), queue)
		},
	}
	f := cmd.Flags()
	o.AddRecords(cmd)
	o.AddManagement(cmd)
	addDeadLetterQueue(f, &o.ask.DeadLetterQueue)
	f.IntVar(&o.ask.Most, "limit", 20, "show `N` messages at most, or queues; 0: all")
	f.BoolVar(&o.partitions, "partitions", false, "also show each partition of a QUEUE that has some, and the process "+
		"to which it is dealt")
	cli.JSON(f, &o.json, "print one JSON object")
	return cmd
}

type status struct {
	cli.Streams
	connect.Flags

	ask              ops.Question // by the flags
	json, partitions bool
}

// run prints the status of a queue, or without one a line of every queue.
func (o *status) run(ctx context.Context, queue string) error {
	b, err := o.Broker()
	if err != nil {
		return err
	}
	switch misnamed := broker.CheckName(o.ask.DeadLetterQueue); {
	case queue == "" && (o.ask.DeadLetterQueue != "" || o.partitions):
		return cli.Misusef("--dead-letter-queue and --partitions need a QUEUE")
	case o.ask.DeadLetterQueue != "" && misnamed != nil:
		return cli.Misusef("--dead-letter-queue: %w", misnamed)
	case o.ask.Most < 0:
		return cli.Refused("limit", o.ask.Most, "0 or more")
	}
	store, down := o.Store(ctx)
	if ctx.Err() != nil {
		return down
	}
	c := collector(b, store)
	defer c.Close()
	if c.StoreDown = down; down == nil { // else the broker's figures are printed all the same
		defer store.Close()
	}
	if queue == "" {
		return o.all(ctx, b, c)
	}
	o.ask.Queue = queue
	s, err := c.Collect(ctx, o.ask)
	switch {
	case err != nil && c.Lost():
		err = b.Explain(err)
	case down != nil && errors.Is(err, down): // down says the rest
		err = errors.New(s.WithoutStore())
	case errors.Is(err, ops.ErrPartition):
		err = cli.Misuse(err)
	}
	if err != nil {
		return errors.Join(down, ambiguous(b.NoQueue(queue, err)))
	}
	for i := range s.Findings {
		s.Findings[i].Fix = cli.InFlags(s.Findings[i].Fix)
	}
	if o.json {
		return jsonl.NewEncoder(o.Out).Encode(s)
	}
	text := render.Status(s)
	if o.partitions {
		text += render.Partitions(s)
	}
	_, err = io.WriteString(o.Out, text)
	return err
}

// all prints a line of every queue, the worst first. If the store is down, it has the broker's figures only.
func (o *status) all(ctx context.Context, b *connect.Broker, c *ops.Collector) error {
	all, err := c.All(ctx)
	down := cmp.Or(c.StoreDown, all.Store)
	switch {
	case err != nil:
		return err
	case all.Broker != nil || o.json && down != nil:
		return errors.Join(withoutAPI(b, all.Broker), down)
	case !o.json:
		return errors.Join(render.Overview(o.Out, all, o.ask.Most), down)
	}
	cut := o.ask.Most > 0 && len(all.Queues) > o.ask.Most
	if cut {
		all.Queues = all.Queues[:o.ask.Most]
	}
	if err := jsonl.NewEncoder(o.Out).Encode(all); err != nil || !cut {
		return err
	}
	return o.Cut(o.ask.Most, "queue", "--limit 0 lists all")
}

// collector returns a Collector for the queues of the broker's virtual host.
func collector(b *connect.Broker, store *counter.Counter) *ops.Collector {
	c := &ops.Collector{VHost: b.VHost, Dial: b.Dial, FindAPI: b.Management}
	if store != nil {
		c.Store = store.Admin()
	}
	return c
}
