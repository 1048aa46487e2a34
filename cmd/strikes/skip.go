package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) skipCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := cli.New("skip QUEUE ID", "have a failing message dead-lettered now, whatever its limit", `
A message that waits for its backoff is dead-lettered within two seconds, one that waits in the queue when it is delivered, and
one that waits in a delay queue when it returns. A running attempt
finishes: if it succeeds, the message is handled. The reason is kept with the dead letter. counter reset cancels a skip. A message that has
not failed yet cannot be skipped (exit 3). Put an ID that begins with - after --.`[1:],
		func(ctx context.Context, args []string) error { return c.Skip(ctx, args[0], args[1]) })
	c.AddRecords(cmd)
	c.AddNote(cmd)
	c.AddChange(cmd, "skipped", "")
	return cmd
}
