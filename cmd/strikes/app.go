package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

type app struct{ cli.Streams }

func run(ctx context.Context, s cli.Streams, args []string) int {
	return cli.Run(ctx, s, (&app{s}).root(), args)
}

func (a *app) root() *cobra.Command {
	info, _ := debug.ReadBuildInfo()
	root := &cobra.Command{
		Use: "strikes", Short: "retry RabbitMQ messages an exact number of times",
		Version: buildOf(info),
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
		a.limitCommand(), a.pauseCommand(), a.resumeCommand(), a.skipCommand(), a.auditCommand(), a.storeCommand(),
		a.versionCommand())
	root.AddCommand(topics()...)
	return root
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version and build", Example: "  strikes version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(a.Out, cmd.Root().Version)
			return err
		},
	}
}

// version is set by the linker of a release: -X main.version=v1.2.3.
var version string

// buildOf says from which source a binary was built, and for which platform.
func buildOf(info *debug.BuildInfo) string {
	if info == nil {
		info = new(debug.BuildInfo)
	}
	text := "strikes " + cmp.Or(version, info.Main.Version, "(devel)")
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			text += " " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			text += ", modified"
		}
	}
	return fmt.Sprintf("%s (%s, %s/%s)", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
