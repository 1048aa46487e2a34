//go:build unix

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

// calls finds the call of strikes in a line of an example.
var calls = regexp.MustCompile(`\bstrikes( [^|)>]*)?`)

// TestExamples: the help of every command shows its purpose and an example within 24 lines, and the parser takes every
// example.
func TestExamples(t *testing.T) {
	t.Parallel()
	sh, recorded := recorder(t, "strikes")
	var script, of []string
	for _, path := range commandPaths(new(app).root()) {
		top := helpOf(t, path)
		if len(top) > 24 {
			top = top[:24]
		}
		if !strings.HasPrefix(top[0], path+" - ") {
			t.Errorf("the help of %s begins with %q", path, top[0])
		}
		lines := exampleLines(top)
		if len(lines) == 0 {
			t.Errorf("the help of %s shows no example in its first 24 lines:\n%s", path, strings.Join(top, "\n"))
		}
		for _, line := range lines {
			script, of = append(script, calls.FindString(line)), append(of, path)
		}
	}
	sh(strings.Join(script, "\n"))
	for i, args := range recorded() {
		root := new(app).root()
		cmd, rest, err := root.Find(args)
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || !strings.HasPrefix(cmd.CommandPath()+" ", of[i]+" ") || cmd.HasSubCommands() {
			t.Errorf("an example of %s, %q, is one of %s: %v", of[i], script[i], cmd.CommandPath(), err)
		}
	}
}

// TestHelpFits80Columns: the help is read through pagers, too. A word that is longer stays whole.
func TestHelpFits80Columns(t *testing.T) {
	t.Parallel()
	for _, path := range commandPaths(new(app).root()) {
		for _, line := range helpOf(t, path) {
			if len([]rune(line)) > 80 && len(strings.Fields(line)) > 1 {
				t.Errorf("the help of %s has a line of %d columns: %s", path, len([]rune(line)), line)
			}
		}
	}
}

// commandPaths are those of a command, and of all below it that its help shows and that are not cobra's.
func commandPaths(cmd *cobra.Command) (paths []string) {
	paths = append(paths, cmd.CommandPath())
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			paths = append(paths, commandPaths(sub)...)
		}
	}
	return paths
}

// helpOf returns the lines that a command prints with --help.
func helpOf(t *testing.T, path string) []string {
	t.Helper()
	var out output
	if code := run(t.Context(), cli.Streams{Out: &out, Err: &out}, append(strings.Fields(path), "--help")); code != 0 {
		t.Errorf("%s --help: exit code %d: %s", path, code, &out)
	}
	return strings.Split(out.String(), "\n")
}

// exampleLines are the command lines below the heading Examples.
func exampleLines(help []string) (lines []string) {
	_, after, _ := strings.Cut(strings.Join(help, "\n"), "\nExamples:\n")
	examples, _, _ := strings.Cut(after, "\n\n")
	for line := range strings.SplitSeq(examples, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}
