package main

import (
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/dead"
)

func (a *app) laneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "lane", Short: "work on the lanes that dead letters block",
		Example: "  strikes lane list orders\n  strikes lane replay orders customer-7",
		Long: `Once a message of a lane is dead-lettered, a consumer with --hold-lanes
dead-letters the later ones too, without an attempt. LANE is the value of the
header that consume --lane-header names. The consumer continues while a lane is
replayed. Put a LANE that begins with - after --.`,
	}
	cmd.AddCommand(a.laneListCommand(), a.laneReplayCommand(), a.laneReleaseCommand(), a.laneDropCommand())
	return cmd
}

func (a *app) laneListCommand() *cobra.Command {
	c := dead.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "list QUEUE", Short: "list the blocked lanes of a queue, longest blocked first", Args: cobra.ExactArgs(1),
		Example: "  strikes lane list orders",
		Long: `BLOCKED BY is the message that must be handled or dropped next, by its
fingerprint (fp:…) if it has no id; - if it is in the queue again. MESSAGES
counts those of the lane that are neither handled nor dropped.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.ListLanes(cmd.Context(), args[0]) },
	}
	cmd.Flags().IntVar(&c.Limit, "limit", 100, "list `N` at most, those that are blocked longest; 0: all")
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object a lane")
	c.AddRecords(cmd)
	return cmd
}

func (a *app) laneReplayCommand() *cobra.Command {
	c := dead.Lanes{Command: dead.Command{Streams: a.Streams}}
	cmd := &cobra.Command{
		Use: "replay QUEUE [LANE]", Short: "publish a lane's dead letters again, in order", Args: cobra.RangeArgs(1, 2),
		Example: `  strikes lane replay orders customer-7
  strikes lane replay orders --all --why "the bank is back"`,
		Long: `The message that blocks the lane is published first, alone. If it fails again
the command ends (exit 1), and the lane stays blocked. You may interrupt and
repeat it at any time. The lane is released when its last message is handled.

--all replays every blocked lane of the queue, one after the other; a lane that
stays blocked does not keep it from the next. strikes help dead-letters says
where the dead letters are.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.Replay(cmd.Context(), args) },
	}
	c.AddChangeTo(cmd)
	cmd.Flags().BoolVar(&c.All, "all", false, "replay every blocked lane of the queue, longest blocked first")
	c.AddReplay(cmd)
	c.AddMissing(cmd)
	return cmd
}

func (a *app) laneReleaseCommand() *cobra.Command {
	c := dead.Lanes{Command: dead.Command{Streams: a.Streams}}
	cmd := &cobra.Command{
		Use: "release QUEUE LANE", Short: "drop the message that blocks a lane, replay the rest", Args: cobra.ExactArgs(2),
		Example: "  strikes lane release orders customer-7 --to dropped.ndjson",
		Long: `The message is written to the file of --to, as dead drop does it. Those after it
are replayed. --missing also gives up each message after it that is missing.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.Release(cmd.Context(), args[0], args[1]) },
	}
	c.AddChangeTo(cmd)
	c.AddReplay(cmd)
	c.AddDrop(cmd)
	return cmd
}

func (a *app) laneDropCommand() *cobra.Command {
	c := dead.Lanes{Command: dead.Command{Streams: a.Streams}}
	cmd := &cobra.Command{
		Use: "drop QUEUE LANE", Short: "drop all messages of a lane, which releases it", Args: cobra.ExactArgs(2),
		Example: "  strikes lane drop orders customer-7 --to dropped.ndjson",
		Long:    "The messages are written to the file of --to, as dead drop does it.",
		RunE:    func(cmd *cobra.Command, args []string) error { return c.DropLane(cmd.Context(), args[0], args[1]) },
	}
	c.AddChangeTo(cmd)
	c.AddDrop(cmd)
	return cmd
}
