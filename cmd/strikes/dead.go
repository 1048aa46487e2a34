package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/dead"
)

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

func (a *app) deadListCommand() *cobra.Command {
	c := dead.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "list QUEUE [ID…]", Short: "list dead letters and why they died", Args: cobra.MinimumNArgs(1),
		Example: `  strikes dead list orders
  strikes dead list orders --groups
  strikes dead list orders --kind timed-out --newer-than 12h`,
		Long: `The first to be replayed comes first. list reads the dead-letter queue if that
is harmless, and the store's records of its messages. strikes help dead-letters
says what harm there is, and explains KIND.

--groups comes from the store's records if the queue holds more than 500
messages and the records are at least nine tenths as many; stderr says as of
when. Otherwise, and with --read, it reads the queue.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.List(cmd.Context(), args[0], args[1:]) },
	}
	c.AddTo(cmd)
	f := cmd.Flags()
	f.IntVar(&c.Limit, "limit", 0, "list `N` at most, or of --groups the largest N; 0: all")
	f.BoolVar(&c.Groups, "groups", false, "count them by kind and reason; each group has a key, which --group takes")
	f.BoolVar(&c.Read, "read", false, "read the dead-letter queue for --groups, even if the store's records answer")
	f.BoolVar(&c.Records, "records", false, "list the store's records, without asking the broker")
	cli.JSON(f, &c.JSON, "print one JSON object a dead letter, or a group")
	return cmd
}

func (a *app) deadShowCommand() *cobra.Command {
	c := dead.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "show QUEUE [ID]", Short: "show everything about one dead letter", Args: cobra.RangeArgs(1, 2),
		Example: `  strikes dead show orders order-17
  strikes dead show orders --group 34fqn6qw
  strikes dead show orders order-17 --body > order-17.json`,
		Long: `Give an ID, or a --group, whose newest dead letter is shown.

The store's record says when and why a message died. Headers and body are read
from the dead-letter queue, from its head, if it holds 500 messages at most. A
longer queue is read only for a message without a record, for --body and --json,
all up to that message, and with --search, which sets how many are read. stderr
says what was not read. If the queue does not hold the message, the record is
printed without headers and body, stderr says what became of it, and the exit
code is 3. strikes help dead-letters explains IDs and KIND.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.Show(cmd.Context(), args[0], args[1:]) },
	}
	c.AddTo(cmd)
	f := cmd.Flags()
	f.IntVar(&c.Search, "search", 0, "read the first `N` dead letters of the queue at most; 0: all")
	cli.DefaultText(f, "search", "none of a long queue if the store has a record")
	f.BoolVar(&c.Body, "body", false, "print only the body, byte by byte; not to a terminal")
	cli.JSON(f, &c.JSON, "print it as one JSON object, as publish --ndjson takes it, with \"dead\" added")
	return cmd
}

func (a *app) deadReplayCommand() *cobra.Command {
	c := dead.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "replay QUEUE [ID…]", Short: "publish dead letters again, with all attempts", Args: cobra.MinimumNArgs(1),
		Example: `  strikes dead replay orders order-17 order-18
  strikes dead replay orders --group 34fqn6qw --rate 5
  strikes dead replay orders --error "connection refused" --dry-run
  strikes dead replay orders --all --why "the bank is back"`,
		Long: `Each goes to the queue in which it died. It leaves the dead-letter queue once
the broker has confirmed its copy. If the command is killed, at most --window
messages are in both queues, under one id; --json reports which were delivered
before, to such a command or to a reader.

It stops when replayed messages fail again. A dead letter that does not say
where it died, or whose queue does not exist, stays in the dead-letter queue
(exit 1). strikes help dead-letters explains IDs and kinds.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.Replay(cmd.Context(), args[0], args[1:]) },
	}
	c.AddTo(cmd)
	c.AddChange(cmd, "replayed")
	f := cmd.Flags()
	f.StringVar(&c.Exchange, "exchange", "", "publish to `EXCHANGE` instead, with --key, or the key that each had")
	f.StringVar(&c.Key, "key", "", "publish with this `KEY`; without --exchange it is a queue")
	f.IntVar(&c.Window, "window", 1, "publish `N` before the first is confirmed; with a choice of dead letters, "+
		"16 at most")
	f.Float64Var(&c.Rate, "rate", 0, "replay `N` a second at most; 0: no limit")
	f.IntVar(&c.StopAfter, "stop-after", 5, "stop when `N` of the replayed messages have failed again; 0: never")
	f.DurationVar(&c.Watch, "watch", 2*time.Second, "see for this `TIME` whether the last ones fail again")
	return cmd
}

func (a *app) deadDropCommand() *cobra.Command {
	c := dead.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "drop QUEUE [ID…]", Short: "write dead letters to a file, and remove them", Args: cobra.MinimumNArgs(1),
		Example: `  strikes dead drop orders order-17 --to dropped.ndjson
  strikes dead drop orders --older-than 30d --to old.ndjson --why "too late"`,
		Long: `publish --ndjson publishes the file again, with nothing lost: a header value of
a type that JSON does not have is written as {"$amqp":[TYPE,VALUE]}, and publish
restores it. strikes help dead-letters explains IDs and kinds.

--undecodable takes out the first message that cannot be decoded. It holds the
messages before it meanwhile, reads the message through the management API,
writes the API's JSON to the file, and then removes it. publish does not take
this line: it refuses such headers.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.Drop(cmd.Context(), args[0], args[1:]) },
	}
	c.AddTo(cmd)
	c.AddChange(cmd, "dropped")
	cmd.Flags().StringVar(&c.To, "to", "", "append them to `FILE`, which is on disk before they are taken off; required")
	cmd.Flags().BoolVar(&c.Undecodable, "undecodable", false,
		"the first message that cannot be decoded, which keeps the others from being read; those before it stay")
	return cmd
}
