package main

import (
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/deadletter"
)

func (a *app) deadCommand() *urfave.Command {
	return &urfave.Command{
		Name:   "dead",
		Usage:  "show, replay and drop the dead letters of a queue",
		Action: a.do(group),
		Commands: []*urfave.Command{
			{
				Name: "list", Usage: "list dead letters and why they died, the first to be replayed first",
				ArgsUsage: "QUEUE [ID…]",
				Description: routeMeaning + "IDs that are not found are named on stderr, and the exit code is 3.\n" +
					"It reads the dead-letter queue where that is harmless, and the store's records of its messages. A quorum queue counts\n" +
					"reads, and deletes a message that was read too often. Where its delivery limit is low or unknown, the store's records\n" +
					"are listed instead, and stderr says so.\n" + nameMeanings + kindMeanings,
				Flags: deadFlags(
					&urfave.IntFlag{Name: "limit", Usage: "list `N` at most, or of --groups the largest `N`; 0: all"},
					&urfave.BoolFlag{Name: "groups", Usage: "count them by kind and reason"},
					&urfave.BoolFlag{Name: "records", Usage: "list the store's records, and leave the broker alone"},
					jsonFlag("print one JSON object a dead letter, or a group"),
				),
				Action: a.do(a.listDead),
			},
			{
				Name: "show", Usage: "show everything about one dead letter",
				ArgsUsage:   "QUEUE ID",
				Description: routeMeaning + searchMeaning + "Put an ID that begins with - after --.\n" + nameMeanings + kindMeanings,
				Flags: deadFlags(
					&urfave.IntFlag{Name: "search", DefaultText: "500 if the store has a record", Usage: "read the first `N` dead letters of the queue at most; 0: all"},
					&urfave.BoolFlag{Name: "body", Usage: "print the body alone, byte by byte; not to a terminal"},
					jsonFlag("print it as one JSON object, as publish --ndjson takes it, with \"dead\" added"),
				),
				Action: a.do(a.showDead),
			},
			{
				Name: "replay", Usage: "publish dead letters again, each to the queue in which it died, with all its retries",
				ArgsUsage: "QUEUE [ID…]",
				Description: routeMeaning + "Each leaves the dead-letter queue once the broker has confirmed it. Should the command be killed, at most\n" +
					"--window of them are in both queues, under one id; --json tells which had been handed out before, by that or a look.\n" +
					"It stops when replayed messages fail again.\n" +
					"One that does not say where it died, or whose queue is gone, is left in its place (exit 1).\n" +
					"IDs that are not found are named when the others are replayed, and the exit code is 3.\n" +
					"Put an ID that begins with - after --.\n" + nameMeanings + kindMeanings,
				Flags: deadFlags(append(verbFlags("replayed"),
					&urfave.StringFlag{Name: "exchange", Usage: "publish to `EXCHANGE` instead, with --key, or the key that each had"},
					&urfave.StringFlag{Name: "key", Usage: "publish with this `KEY`; without --exchange it is a queue"},
					&urfave.IntFlag{Name: "window", Value: 1, Usage: "publish `N` before the first is confirmed; with a choice of dead letters, 16 at most"},
					&urfave.FloatFlag{Name: "rate", Usage: "replay `N` a second at most; 0: no limit"},
					&urfave.IntFlag{Name: "stop-after", Value: 5, Usage: "stop when `N` of the replayed messages have failed again; 0: never"},
					&urfave.DurationFlag{Name: "watch", Value: 2 * time.Second, Usage: "see for this `TIME` whether the last ones fail again"},
				)...),
				Action: a.do(a.replayDead),
			},
			{
				Name: "drop", Usage: "write dead letters to a file, and take them off",
				ArgsUsage: "QUEUE [ID…]",
				Description: routeMeaning + "The file is one that publish --ndjson takes, and nothing is lost in it: a header of a type that JSON does not have is\n" +
					"an object with one key, $bytes, $time, $decimal, $int32 and the like, and publish makes of it what it was.\n" +
					"IDs that are not found are named when the others are dropped, and the exit code is 3. Put an ID that begins with - after --.\n" +
					nameMeanings + kindMeanings,
				Flags: deadFlags(append(verbFlags("dropped"),
					&urfave.StringFlag{Name: "to", Usage: "append them to `FILE`, which is on disk before they are taken off"},
				)...),
				Action: a.do(a.dropDead),
			},
		},
	}
}

const routeMeaning = "Without --dead-letter-queue the command finds the queue in which the dead letters land, by QUEUE's arguments, policies and\n" +
	"bindings. The management API shows these. If it does not, the command assumes QUEUE.dlq, and stderr says so. If dead\n" +
	"letters land in several queues, the error names them.\n"

// deadFlags are those that all four share: where the dead letters are, and which of them.
func deadFlags(more ...cli.Flag) []urfave.Flag {
	return append([]urfave.Flag{
		amqpFlag(), redisFlag(), prefixFlag(),
		managementFlag("which shows where dead letters land, and what reading them costs"),
		&urfave.StringFlag{Name: "vhost", Sources: env("vhost"), DefaultText: "that of the AMQP URL", Usage: "the queue's virtual `HOST`"},
		&urfave.StringFlag{Name: "dead-letter-queue", Aliases: []string{"dlq"}, Sources: env("dead-letter-queue"), DefaultText: "found", Usage: "where dead letters are: `NAME`"},
		&urfave.BoolFlag{Name: "no-store", Usage: "ask the broker alone: no counts, no errors of handlers, no stop when messages fail again, and no word to strikes status of what is taken out"},
		&urfave.BoolFlag{Name: "force", Usage: "look and pick even where that is not known to be harmless"},
		&urfave.StringFlag{Name: "reason", Usage: "only those whose last error contains `TEXT`"},
		&urfave.StringFlag{Name: "kind", Usage: "only those of a `KIND`: " + kindNames()},
		&ageFlag{Name: "older-than", Usage: "only those that died this `TIME` ago, or earlier: 90s, 12h or 7d"},
		&ageFlag{Name: "newer-than", Usage: "only those that died within this `TIME`"},
		&urfave.StringFlag{Name: "lane", Usage: "only those with this header, as `NAME=VALUE`"},
		&urfave.StringFlag{Name: "origin", Usage: "only those that died in `QUEUE`"},
	}, more...)
}

// verbFlags are those of what changes the queue.
func verbFlags(done string) []urfave.Flag {
	return []urfave.Flag{
		&urfave.BoolFlag{Name: "all", Usage: "all that are there, if nothing else says which"},
		&urfave.IntFlag{Name: "max", Usage: "stop after `N`; 0: no limit"},
		&urfave.BoolFlag{Name: "dry-run", Usage: "only say what would be " + done},
		&urfave.BoolFlag{Name: "yes", Usage: "do not ask; needed where there is no terminal to ask at"},
		jsonFlag("print one JSON object a dead letter"),
	}
}

func kindNames() string {
	var names []string
	for _, k := range deadletter.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}
