package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

// TestHelpBegins: the help of each command has its purpose and examples in the first 24 lines, which a terminal shows.
func TestHelpBegins(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Runnable() && !cmd.Hidden {
			var out strings.Builder
			args := append(strings.Fields(cmd.CommandPath()), "--help")
			code := run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}, args)
			first := strings.Join(strings.Split(out.String(), "\n")[:min(24, strings.Count(out.String(), "\n"))], "\n")
			if code != 0 || !strings.HasPrefix(first, cmd.CommandPath()+" - "+cmd.Short) ||
				!strings.Contains(first, "\nExamples:\n  strikes ") {
				t.Errorf("%q: exit code %d: %s", args, code, first)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit((&app{}).root())
}
