package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
)

// app is one run of the program.
type app struct{ cli.Streams }

// run runs the command line args, whose first is the program's name, and returns the exit code.
func run(ctx context.Context, s cli.Streams, args []string) int {
	return cli.Run(ctx, s, (&app{s}).root(), args) //nolint:contextcheck // a command gets ctx when it runs
}

func (a *app) root() *cobra.Command {
	version := false
	root := cli.Group("strikes", "retry RabbitMQ messages an exact number of times, counted in Redis",
		a.demoCommand(), a.declareCommand(), a.publishCommand(), a.consumeCommand(), a.doctorCommand(),
		a.statusCommand(), a.consoleCommand(), a.exportCommand(), a.deadCommand(), a.laneCommand(), a.counterCommand(),
		a.limitCommand(),
		a.pauseCommand(), a.resumeCommand(), a.skipCommand(), a.auditCommand(),
		a.versionCommand(), a.demoWorkerCommand())
	root.Long = cli.ExitCodes
	root.Flags().BoolVar(&version, "version", false, "print the version and build")
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if version && (cmd != root || len(args) > 0) {
			return cli.Misusef("--version takes no arguments")
		}
		return nil
	}
	group := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if version {
			return a.printVersion(false)
		}
		return group(cmd, args)
	}
	root = cli.Root(a.Streams, root)
	connect.CompleteQueues(root)
	addExamples(root)
	return root
}
