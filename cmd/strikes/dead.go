package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/deadletter"
)

func (a *app) deadCommand() *cobra.Command {
	return cli.Group("dead", "show, replay and drop the dead letters of a queue",
		a.deadListCommand(), a.deadShowCommand(), a.deadReplayCommand(), a.deadDropCommand())
}

func (a *app) deadListCommand() *cobra.Command {
	var o deadOptions
	cmd := cli.New("list QUEUE [ID…]", "list dead letters and why they died, the first to be replayed first", routeMeaning+`
IDs that are not found are named on stderr, and the exit code is 3. list reads the dead-letter queue where that is harmless, and the store's
records of its messages. A quorum queue counts reads, and deletes a message that was read too often. Where its delivery limit is low or
unknown, the store's records are listed instead, and stderr says so.
`[1:]+nameMeanings+kindMeanings,
		func(ctx context.Context, args []string) error { return a.listDead(ctx, o, args[0], args[1:]) })
	f := cmd.Flags()
	o.addTo(cmd)
	f.IntVar(&o.limit, "limit", 0, "list `N` at most, or of --groups the largest `N`; 0: all")
	f.BoolVar(&o.groups, "groups", false, "count them by kind and reason")
	f.BoolVar(&o.records, "records", false, "list the store's records, and leave the broker alone")
	cli.JSON(f, &o.json, "print one JSON object a dead letter, or a group")
	return cmd
}

func (a *app) deadShowCommand() *cobra.Command {
	var o deadOptions
	cmd := cli.New("show QUEUE ID", "show everything about one dead letter",
		routeMeaning+searchMeaning+"Put an ID that begins with - after --.\n"+nameMeanings+kindMeanings,
		func(ctx context.Context, args []string) error { return a.showDead(ctx, o, args[0], args[1:]) })
	f := cmd.Flags()
	o.addTo(cmd)
	f.IntVar(&o.search, "search", 0, "read the first `N` dead letters of the queue at most; 0: all")
	cli.DefaultText(f, "search", "500 if the store has a record")
	f.BoolVar(&o.body, "body", false, "print the body alone, byte by byte; not to a terminal")
	cli.JSON(f, &o.json, "print it as one JSON object, as publish --ndjson takes it, with \"dead\" added")
	return cmd
}

func (a *app) deadReplayCommand() *cobra.Command {
	var o deadOptions
	cmd := cli.New("replay QUEUE [ID…]", "publish dead letters again, each to the queue in which it died, with all its attempts", routeMeaning+`
Each leaves the dead-letter queue once the broker has confirmed it. If the command is killed, at most --window of them are in both queues,
under one id; --json reports which had been handed out before, by such a command or a reader. It stops when replayed messages fail again. A
dead letter that does not say where it died, or whose queue does not exist, stays in the dead-letter queue (exit 1). IDs that are not found
are named after the others are replayed, and the exit code is 3. Put an ID that begins with - after --.
`[1:]+nameMeanings+kindMeanings,
		func(ctx context.Context, args []string) error { return a.replayDead(ctx, o, args[0], args[1:]) })
	f := cmd.Flags()
	o.addTo(cmd)
	o.addVerb(cmd, "replayed")
	f.StringVar(&o.exchange, "exchange", "", "publish to `EXCHANGE` instead, with --key, or the key that each had")
	f.StringVar(&o.key, "key", "", "publish with this `KEY`; without --exchange it is a queue")
	f.IntVar(&o.window, "window", 1, "publish `N` before the first is confirmed; with a choice of dead letters, 16 at most")
	f.Float64Var(&o.rate, "rate", 0, "replay `N` a second at most; 0: no limit")
	f.IntVar(&o.stopAfter, "stop-after", 5, "stop when `N` of the replayed messages have failed again; 0: never")
	f.DurationVar(&o.watch, "watch", 2*time.Second, "see for this `TIME` whether the last ones fail again")
	return cmd
}

func (a *app) deadDropCommand() *cobra.Command {
	var o deadOptions
	cmd := cli.New("drop QUEUE [ID…]", "write dead letters to a file, and take them off the dead-letter queue", routeMeaning+`
publish --ndjson takes the file, and the file loses nothing: a header of a type that JSON does not have is an object with one key, $bytes,
$time, $decimal, $int32 and the like, and publish restores it. IDs that are not found are named after the others are dropped, and the exit
code is 3. Put an ID that begins with - after --.
`[1:]+nameMeanings+kindMeanings,
		func(ctx context.Context, args []string) error { return a.dropDead(ctx, o, args[0], args[1:]) })
	o.addTo(cmd)
	o.addVerb(cmd, "dropped")
	cmd.Flags().StringVar(&o.to, "to", "", "append them to `FILE`, which is on disk before they are taken off; required")
	return cmd
}

const routeMeaning = "Without --dead-letter-queue the command finds the queue in which the dead letters land, by QUEUE's arguments, policies and\n" +
	"bindings. The management API shows these. If it does not, the command assumes QUEUE.dlq, and stderr says so. If dead\n" +
	"letters land in several queues, the error names them.\n"

// deadOptions are the flags of the verbs on dead letters: where they are, which of them, and what each verb adds.
type deadOptions struct {
	connect.Flags

	deadLetterQueue            string
	noStore, force             bool
	reason, kind, lane, origin string
	older, newer               time.Duration
	json                       bool

	limit           int // list
	groups, records bool

	search int // show
	body   bool

	all, dryRun, yes bool // replay and drop
	max              int

	exchange, key     string // replay
	window, stopAfter int
	rate              float64
	watch             time.Duration

	to string // drop
}

// addTo adds the flags that all four verbs share.
func (o *deadOptions) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	o.AddBroker(cmd)
	o.AddStore(cmd)
	o.AddManagement(cmd, "which shows where dead letters land, and what reading them costs")
	o.AddVHost(cmd)
	addDeadLetterQueue(f, &o.deadLetterQueue)
	f.BoolVar(&o.noStore, "no-store", false, "ask the broker alone: no counts, no errors of handlers, no stop when messages fail again, and strikes status is not told of what is taken off")
	f.BoolVar(&o.force, "force", false, "read and pick even where that is not known to be harmless")
	f.StringVar(&o.reason, "reason", "", "only those whose last error contains `TEXT`")
	f.StringVar(&o.kind, "kind", "", "only those of a `KIND`: "+kindNames())
	cli.Age(f, &o.older, "older-than", "only those that died this `TIME` ago, or earlier: 90s, 12h or 7d")
	cli.Age(f, &o.newer, "newer-than", "only those that died within this `TIME`")
	f.StringVar(&o.lane, "lane", "", "only those with this header, as `NAME=VALUE`")
	f.StringVar(&o.origin, "origin", "", "only those that died in `QUEUE`")
	cli.OneOf(cmd, "kind", strings.Split(kindNames(), ", ")...)
}

// addVerb adds the flags of what changes the queue.
func (o *deadOptions) addVerb(cmd *cobra.Command, done string) {
	f := cmd.Flags()
	f.BoolVar(&o.all, "all", false, "all dead letters, if nothing else says which")
	f.IntVar(&o.max, "max", 0, "stop after `N`; 0: no limit")
	f.BoolVar(&o.dryRun, "dry-run", false, "only say what would be "+done)
	f.BoolVar(&o.yes, "yes", false, "do not ask; required where there is no terminal to ask at")
	cli.JSON(f, &o.json, "print one JSON object a dead letter")
}

// addDeadLetterQueue adds --dead-letter-queue, or --dlq.
func addDeadLetterQueue(f *pflag.FlagSet, name *string) {
	f.StringVar(name, "dead-letter-queue", "", "the dead-letter queue's `NAME`; --dlq for short")
	cli.FromEnv(f, "dead-letter-queue")
	cli.DefaultText(f, "dead-letter-queue", "found")
}

func kindNames() string {
	var names []string
	for _, k := range deadletter.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}
