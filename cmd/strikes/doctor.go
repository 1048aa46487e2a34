package main

import (
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/findings"
)

func (a *app) doctorCommand() *cobra.Command {
	c := findings.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "doctor [QUEUE…]", Short: "find what would lose or block messages, and fix it", Args: cobra.ArbitraryArgs,
		Example: "  strikes doctor\n  strikes doctor orders --probe\n  strikes doctor orders --fix --dry-run",
		Long: `Examines each QUEUE, its dead-letter route, the broker and the store. It reports
what is wrong, why it matters and how to fix it. It changes nothing without
--fix. docs/operations.md has a section for the code of each finding. Without a
QUEUE it examines every queue of the virtual host, except exclusive queues,
streams, and queues that only take the dead letters of others.

It asks the management API for what AMQP cannot report. Without the API it says
what it could not see.

With --fix it shows the steps that fix each QUEUE, asks, takes them, and
examines the queue again. A step declares what is missing, sets a policy for one
queue, or removes a binding that leads dead letters back. The audit log of the
queue keeps who did it, and --why.

With --probe it also proves, for each QUEUE, where a requeued message goes, on a
scratch queue with the same arguments, and that a rejected message arrives, if
the dead-letter queue is empty and has no consumer.

It examines everything before it exits: 5 if anything is wrong; else 69 if the
store is out of reach, 4 if permissions are missing, 2 if a QUEUE or the store's
database does not exist, 0 if there are only warnings. A broker that cannot be
asked ends it immediately, with 69 or 4.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.Run(cmd.Context(), args) },
	}
	c.AddTo(cmd)
	return cmd
}
