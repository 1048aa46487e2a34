//go:build unix

package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// calls finds the call of strikes in a line of an example.
var calls = regexp.MustCompile(`\bstrikes( [^|)>]*)?`)

// TestHelp: the help of every command shows its purpose and an example within 24 lines, and no secret of the
// environment. It has 80 columns, because it is read through pagers, too; a longer word stays whole. The parser takes
// every example.
func TestHelp(t *testing.T) {
	t.Setenv("AMQP_URL", "amqp://guest:hush@127.0.0.1/")
	t.Setenv("STRIKES_STORE_URL", "redis://:hush@127.0.0.1/")
	t.Setenv("STRIKES_MANAGEMENT_URL", "http://guest:hush@127.0.0.1:15672")
	var script, of []string
	for _, path := range commandPaths(new(app).root()) {
		code, help, errs := called(t, append(strings.Fields(path)[1:], "--help")...)
		if code != 0 || !strings.HasPrefix(help, path+" - ") || strings.Contains(help, "hush") ||
			strings.Contains(help, "guest:guest") {
			t.Errorf("%s --help: exit code %d: %s%s", path, code, help, errs)
		}
		lines := strings.Split(help, "\n")
		for _, line := range lines {
			if len([]rune(line)) > 80 && len(strings.Fields(line)) > 1 {
				t.Errorf("the help of %s has a line of %d columns: %s", path, len([]rune(line)), line)
			}
		}
		examples := exampleLines(lines[:min(24, len(lines))])
		if len(examples) == 0 {
			t.Errorf("the help of %s shows no example in its first 24 lines:\n%s", path, help)
		}
		for _, line := range examples {
			script, of = append(script, calls.FindString(line)), append(of, path)
		}
	}
	for i, args := range words(t, script) {
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

// words has a shell split calls of strikes into their arguments.
func words(t *testing.T, script []string) (calls [][]string) {
	t.Helper()
	record := `strikes() { printf '%s\0' "$@"; printf '\1'; }` + "\n"
	out, err := exec.CommandContext(t.Context(), "sh", "-c", record+strings.Join(script, "\n")).Output()
	need(t, err)
	for call := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x01"), "\x01") {
		calls = append(calls, strings.Split(strings.TrimSuffix(call, "\x00"), "\x00"))
	}
	return calls
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
