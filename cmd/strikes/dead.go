package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/dead"
)

func (a *app) deadCommand() *cobra.Command {
	return cli.Group("dead", "show, replay and drop the dead letters of a queue",
		a.deadListCommand(), a.deadShowCommand(), a.deadReplayCommand(), a.deadDropCommand())
}

func (a *app) deadListCommand() *cobra.Command {
	c := dead.Command{Streams: a.Streams}
	cmd := cli.New("list QUEUE [ID…]", "list dead letters and why they died, the first to be replayed first",
		dead.RouteMeaning+`
IDs that are not found are named on stderr, and the exit code is 3. list reads the dead-letter queue if that is harmless, and the store's
records of its messages. A quorum queue counts reads, and deletes a message that was read too often. If its delivery limit is low or
unknown, the store's records are listed instead, and stderr says so. --groups comes from the store's records if the queue holds more
than 500 messages and the records are at least nine tenths as many; stderr says as of when. Otherwise, and with --read, it reads the queue.

`[1:]+nameMeanings+kindMeanings,
		func(ctx context.Context, args []string) error { return c.List(ctx, args[0], args[1:]) })
	f := cmd.Flags()
	c.AddTo(cmd)
	f.IntVar(&c.Limit, "limit", 0, "list `N` at most, or of --groups the largest N; 0: all")
	f.BoolVar(&c.Groups, "groups", false, "count them by kind and reason; each group has a key, which --group takes")
	f.BoolVar(&c.Read, "read", false, "read the dead-letter queue for --groups, even if the store's records answer")
	f.BoolVar(&c.Records, "records", false, "list the store's records, without asking the broker")
	cli.JSON(f, &c.JSON, "print one JSON object a dead letter, or a group")
	return cmd
}

func (a *app) deadShowCommand() *cobra.Command {
	c := dead.Command{Streams: a.Streams}
	cmd := cli.New("show QUEUE [ID]", "show everything about one dead letter, or about the newest of a --group",
		dead.RouteMeaning+`
The store's record says when and why a message died. Headers and body are read from the dead-letter queue, from its head, if it holds 500
messages at most. A longer queue is read only for a message without a record, for --body and --json, all up to that message, and with
--search, which sets how many are read. stderr says what was not read. If the queue does not hold the message, the record is printed without
headers and body, stderr says what became of it, and the exit code is 3.
Put an ID that begins with - after --.

`[1:]+nameMeanings+kindMeanings,
		func(ctx context.Context, args []string) error { return c.Show(ctx, args[0], args[1:]) })
	f := cmd.Flags()
	c.AddTo(cmd)
	f.IntVar(&c.Search, "search", 0, "read the first `N` dead letters of the queue at most; 0: all")
	cli.DefaultText(f, "search", "none of a long queue if the store has a record")
	f.BoolVar(&c.Body, "body", false, "print only the body, byte by byte; not to a terminal")
	cli.JSON(f, &c.JSON, "print it as one JSON object, as publish --ndjson takes it, with \"dead\" added")
	return cmd
}

func (a *app) deadReplayCommand() *cobra.Command {
	c := dead.Command{Streams: a.Streams}
	cmd := cli.New("replay QUEUE [ID…]", "publish dead letters again, each to the queue in which it died, with all "+
		"its attempts", dead.RouteMeaning+`
A dead letter leaves the dead-letter queue once the broker has confirmed its copy. If the command is killed, at most --window messages are
in both queues, under one id; --json reports which were delivered before, to such a command or to a reader. It stops when replayed messages fail again. A
dead letter that does not say where it died, or whose queue does not exist, stays in the dead-letter queue (exit 1). IDs that are not found
are named after the others are replayed, and the exit code is 3. Put an ID that begins with - after --.

`[1:]+nameMeanings+kindMeanings,
		func(ctx context.Context, args []string) error { return c.Replay(ctx, args[0], args[1:]) })
	f := cmd.Flags()
	c.AddTo(cmd)
	c.AddChange(cmd, "replayed")
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
	cmd := cli.New("drop QUEUE [ID…]", "write dead letters to a file, and take them off the dead-letter queue",
		dead.RouteMeaning+`
publish --ndjson publishes the file again, with nothing lost: a header value of a type that JSON does not have is written as
{"$amqp":[TYPE,VALUE]}, and publish restores it. IDs that are not found are named after the others are dropped, and the exit
code is 3. Put an ID that begins with - after --.

--undecodable takes out the first message that cannot be decoded. It holds the messages before it meanwhile, reads the message through the
management API, writes the API's JSON to the file, and then removes it. publish does not take this line: it refuses such headers.

`[1:]+nameMeanings+kindMeanings,
		func(ctx context.Context, args []string) error { return c.Drop(ctx, args[0], args[1:]) })
	c.AddTo(cmd)
	c.AddChange(cmd, "dropped")
	cmd.Flags().StringVar(&c.To, "to", "", "append them to `FILE`, which is on disk before they are taken off; required")
	cmd.Flags().BoolVar(&c.Undecodable, "undecodable", false,
		"the first message that cannot be decoded, which keeps the others from being read; those before it stay")
	return cmd
}
