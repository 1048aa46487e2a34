package main

import (
	"context"
	"runtime/debug"

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
	info, _ := debug.ReadBuildInfo()
	root := &cobra.Command{
		Use: "strikes", Short: "retry RabbitMQ messages an exact number of times",
		Version: buildOf(info).String(),
		Example: `  strikes demo
  strikes declare orders
  strikes publish orders orders.txt
  strikes consume orders --max-retries 5 -- ./handle-order
  strikes dead list orders`,
		Long: cli.ExitCodes,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(a.demoCommand(), a.declareCommand(), a.publishCommand(), a.consumeCommand(), a.doctorCommand(),
		a.statusCommand(), a.consoleCommand(), a.exportCommand(), a.deadCommand(), a.laneCommand(), a.counterCommand(),
		a.limitCommand(), a.pauseCommand(), a.resumeCommand(), a.skipCommand(), a.auditCommand(), a.storeCommand(), a.versionCommand(),
		a.demoWorkerCommand())
	root.AddCommand(topics()...)
	connect.CompleteQueues(root)
	return root
}
