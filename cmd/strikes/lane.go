package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/dead"
)

func (a *app) laneCommand() *cobra.Command {
	return cli.Group("lane", "show, replay, release and drop the lanes that dead letters hold",
		a.laneListCommand(), a.laneReplayCommand(), a.laneReleaseCommand(), a.laneDropCommand())
}

const laneMeaning = `
Once a message of a lane is dead-lettered, a consumer with --hold-lanes dead-letters the later ones too, without an attempt. LANE is the
value of the header that consume --lane-header names. The consumer continues while a lane is replayed. Put a LANE that begins with - after --.

`

func (a *app) laneListCommand() *cobra.Command {
	c := dead.Command{Streams: a.Streams}
	cmd := cli.New("list QUEUE", "list the blocked lanes of a queue, longest blocked first", `
BLOCKED BY is the message that must be handled or dropped next, by its fingerprint (fp:…) if it has no id; - if it is in the queue again. MESSAGES counts those of the lane
that are neither handled nor dropped.`[1:],
		func(ctx context.Context, args []string) error { return c.ListLanes(ctx, args[0]) })
	c.AddRecords(cmd)
	cmd.Flags().IntVar(&c.Limit, "limit", 100, "list `N` at most, those that are held longest; 0: all")
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object a lane")
	return cmd
}

func (a *app) laneReplayCommand() *cobra.Command {
	c := dead.Lanes{Command: dead.Command{Streams: a.Streams}}
	cmd := cli.New("replay QUEUE [LANE]", "publish the dead letters of a lane again in their order, until the lane is "+
		"released", laneMeaning[1:]+dead.RouteMeaning+`
The message that blocks the lane is published first, alone. If it fails again the command ends (exit 1), and the lane stays blocked. You may
interrupt and repeat it at any time. --all replays every blocked lane of the queue, one after the other; a lane that stays blocked does not keep
it from the next.`[1:],
		func(ctx context.Context, args []string) error { return c.Replay(ctx, args) })
	c.AddChangeTo(cmd)
	cmd.Flags().BoolVar(&c.All, "all", false, "replay every blocked lane of the queue, longest blocked first")
	c.AddReplay(cmd)
	c.AddMissing(cmd)
	return cmd
}

func (a *app) laneReleaseCommand() *cobra.Command {
	c := dead.Lanes{Command: dead.Command{Streams: a.Streams}}
	cmd := cli.New("release QUEUE LANE", "drop the message that holds a lane, and replay those after it", laneMeaning[1:]+
		dead.RouteMeaning+`
The message is written to the file of --to, as dead drop does it. --missing also gives up each message after it that is missing.`[1:],
		func(ctx context.Context, args []string) error { return c.Release(ctx, args[0], args[1]) })
	c.AddChangeTo(cmd)
	c.AddReplay(cmd)
	c.AddDrop(cmd)
	return cmd
}

func (a *app) laneDropCommand() *cobra.Command {
	c := dead.Lanes{Command: dead.Command{Streams: a.Streams}}
	cmd := cli.New("drop QUEUE LANE", "drop all messages of a lane, which releases it", laneMeaning[1:]+dead.RouteMeaning+`
The messages are written to the file of --to, as dead drop does it.`[1:],
		func(ctx context.Context, args []string) error { return c.DropLane(ctx, args[0], args[1]) })
	c.AddChangeTo(cmd)
	c.AddDrop(cmd)
	return cmd
}
