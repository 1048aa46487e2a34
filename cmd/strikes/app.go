package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
)

// app is one run of the program.
type app struct{ cli.Streams }

// run runs the command line args, whose first is the program's name, and returns the exit code.
func run(ctx context.Context, s cli.Streams, args []string) int {
	return cli.Run(ctx, s, (&app{s}).root(), args)
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
		a.limitCommand(), a.pauseCommand(), a.resumeCommand(), a.skipCommand(), a.auditCommand(), a.storeCommand(),
		a.versionCommand())
	root.AddCommand(topics()...)
	return root
}

func (a *app) versionCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "version", Short: "print the version and build",
		Example: "  strikes version\n  strikes version --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			if asJSON {
				return jsonl.NewEncoder(a.Out).Encode(buildOf(info))
			}
			_, err := fmt.Fprintln(a.Out, buildOf(info))
			return err
		},
	}
	cli.JSON(cmd.Flags(), &asJSON, "print one JSON object")
	return cmd
}

// version is set by the linker of a release: -X main.version=v1.2.3.
var version string

// build says from which source a binary was built, and for which platform.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // beyond the revision
	Time     string `json:"time,omitempty"`     // of the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildOf(info *debug.BuildInfo) build {
	b := build{Version: cmp.Or(version, "(devel)"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return b
	}
	if version == "" && info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

func (b build) String() string {
	text := "strikes " + b.Version
	if b.Revision != "" {
		text += " " + b.Revision
		if b.Modified {
			text += ", modified"
		}
	}
	return text + " (" + b.Go + ", " + b.Platform + ")"
}
