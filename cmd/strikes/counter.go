package main

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/ops"
)

func (a *app) counterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "counter", Short: "show the counts of messages, and reset them",
		Example: "  strikes counter list orders\n" +
			`  strikes counter reset orders order-17 --why "the bank was down"`,
	}
	cmd.AddCommand(a.counterListCommand(), a.counterGetCommand(), a.counterResetCommand())
	return cmd
}

func (a *app) counterListCommand() *cobra.Command {
	c, most := a.storeVerb(), 0
	cmd := &cobra.Command{
		Use: "list QUEUE", Short: "list messages that fail, run or are dead-lettered",
		Example: "  strikes counter list orders\n  strikes counter list orders --limit 20 --json",
		Long:    "The newest comes first. strikes help words explains STATE.",
		RunE:    func(cmd *cobra.Command, args []string) error { return c.list(cmd.Context(), args[0], most) },
	}
	cmd.Flags().IntVar(&most, "limit", 0, "list `N` at most; 0: all")
	c.addOutput(cmd, "print one JSON object a message")
	return cmd
}

func (c *storeVerb) list(ctx context.Context, queue string, most int) error {
	if most < 0 {
		return cli.Refused("limit", most, "0 or more")
	}
	return c.withQueue(ctx, queue, func(q *ops.Queue) error {
		judge, err := q.Judge(ctx)
		if err != nil {
			return err
		}
		out, n, read := render.Records(c.Out, c.json), 0, most
		if most > 0 {
			read++ // tells whether there are more
		}
		for r, err := range q.List(ctx, read) {
			if err != nil {
				return errors.Join(out.Flush(), err)
			}
			if n++; most > 0 && n > most {
				continue // an error may follow
			}
			if err := out.Row(judge(r)); err != nil {
				return err
			}
		}
		if n == 0 {
			return q.None("nothing is counted")
		}
		if err := out.Flush(); err != nil || most == 0 || n <= most {
			return err
		}
		return c.Cut(most, "message", "there are more")
	})
}

func (a *app) counterGetCommand() *cobra.Command {
	c := a.storeVerb()
	cmd := &cobra.Command{
		Use: "get QUEUE ID", Short: "show the counts of one message",
		Example: "  strikes counter get orders order-17",
		Long: `Each generation of the message is shown, the newest first: a replay begins a new
one. Put an ID that begins with - after --. strikes help words explains the
state.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.get(cmd.Context(), args[0], args[1]) },
	}
	c.addOutput(cmd, "print one JSON object a generation")
	return cmd
}

func (c *storeVerb) get(ctx context.Context, queue, id string) error {
	return c.withQueue(ctx, queue, func(q *ops.Queue) error {
		all, err := q.Message(ctx, id)
		if err != nil {
			return listed(err, queue)
		}
		judge, err := q.Judge(ctx)
		if err != nil {
			return err
		}
		show := func(r ops.Record) error { return jsonl.NewEncoder(c.Out).Encode(r) }
		if !c.json {
			show = func(r ops.Record) error { return render.Record(c.Out, r) }
		}
		for i, r := range all {
			if i > 0 && !c.json {
				fmt.Fprintln(c.Out)
			}
			if err := show(judge(r)); err != nil {
				return err
			}
		}
		return nil
	})
}

// listed adds the command that lists the messages with counts to an error of a message without a count (ops.ErrNone).
func listed(err error, queue string) error {
	if errors.Is(err, ops.ErrNone) {
		return fmt.Errorf("%w; strikes counter list %s shows the messages with counts", err, shell.Operands(queue))
	}
	return err
}

func (a *app) counterResetCommand() *cobra.Command {
	c := changeVerb{storeVerb: a.storeVerb()}
	cmd := &cobra.Command{
		Use: "reset QUEUE ID…", Short: "give messages all their attempts again",
		Example: `  strikes counter reset orders order-17 order-18 --why "the bank was down"`,
		Long: `Forgets what was counted of the messages. A message that is in the dead-letter
queue stays there. Who, when and why are kept with the record. Put an ID that
begins with - after --.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := c.change(cmd.Context(), ops.VerbReset, args[0], args[1:]...)
			return err
		},
	}
	c.addNote(cmd)
	c.addChange(cmd, "forgotten", " an id")
	return cmd
}

// storeVerb is one run of a verb on the records of a queue in the store.
type storeVerb struct {
	cli.Streams
	connect.Flags

	json bool
}

func (a *app) storeVerb() storeVerb { return storeVerb{Streams: a.Streams} }

// addOutput adds --json, and the flags that lead to the records.
func (c *storeVerb) addOutput(cmd *cobra.Command, json string) {
	cli.JSON(cmd.Flags(), &c.json, json)
	c.AddRecords(cmd)
}

// withQueue opens the records of a queue for f, and closes them. The broker is asked only where the store knows
// nothing: the queue may be misspelt.
func (c *storeVerb) withQueue(ctx context.Context, queue string, f func(*ops.Queue) error) error {
	b, err := c.Broker()
	if err != nil {
		return err
	}
	store, err := c.Store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	err = f(&ops.Queue{Store: store.Admin(), VHost: b.VHost, Name: queue, Warn: unaudited(c.Err),
		Unconsumed: func(ctx context.Context) (string, error) { return c.unconsumed(ctx, queue) }})
	switch {
	case errors.Is(err, ops.ErrNone):
		if missing := c.RefuseMissing(ctx, queue); missing != nil {
			return missing
		}
		return cli.WithCode(err, cli.ExitNothing)
	case errors.Is(err, counter.ErrOver):
		return cli.Misusef("%w; strikes dead replay publishes a dead letter again", err)
	}
	return err
}

// unconsumed asks the broker whether it deletes a queue once its consumers stop.
func (c *storeVerb) unconsumed(ctx context.Context, queue string) (how string, err error) {
	b, err := c.Broker()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, connect.CheckTimeout)
	defer cancel()
	err = b.With(ctx, func(conn *amqp.Connection) error {
		need, _ := b.Management(ctx, conn, inspect.Need{Queue: queue})
		how, err = ops.Unconsumed(ctx, conn, need)
		return err
	})
	return how, err
}

func (a *app) auditCommand() *cobra.Command {
	c, most := a.storeVerb(), 0
	cmd := &cobra.Command{
		Use: "audit QUEUE", Short: "show who changed what on a queue, when and why",
		Example: "  strikes audit orders\n  strikes audit orders --limit 10 --json",
		Long: `The newest change comes first. The log has every pause, resume, skip, reset,
limit, replay, drop, doctor --fix and declare --repartition, by this command and
by the console. A replay or a drop has two entries: one when it begins, one with
its result. The store keeps the last 1,000 entries of a queue, each for 90 days.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.audit(cmd.Context(), args[0], most) },
	}
	cmd.Flags().IntVar(&most, "limit", 50, "show `N` at most")
	c.addOutput(cmd, "print one JSON object a change")
	return cmd
}

// mostEntries is the number of entries that the audit log keeps.
const mostEntries = 1000

func (c *storeVerb) audit(ctx context.Context, queue string, most int) error {
	if most < 1 || most > mostEntries {
		return cli.Refused("limit", most, "1 to 1000")
	}
	return c.withQueue(ctx, queue, func(q *ops.Queue) error {
		entries, err := q.AuditLog(ctx, most)
		if err != nil {
			return err
		}
		return render.All(render.Audit(c.Out, c.json), entries)
	})
}
