package main

import (
	"os"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

// TestMisuse: an error of the parser, or of a setting that a library refuses, is in words of the command line, without
// a password, and quotes the typed words unchanged. testdata/misuse.txt has the commands, each with its error.
func TestMisuse(t *testing.T) {
	t.Setenv("AMQP_URL", "amqp://127.0.0.1:1")
	t.Setenv("REDIS_URL", "redis://127.0.0.1:1")
	text, err := os.ReadFile("testdata/misuse.txt")
	need(t, err)
	for example := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		command, want, _ := strings.Cut(strings.TrimPrefix(example, "$ "), "\n")
		want = strings.ReplaceAll(want, "\n", " ") + "\n" // a long error has several lines
		t.Run(command, func(t *testing.T) {
			words := strings.Fields(command)
			if name, value, set := strings.Cut(words[0], "="); set {
				t.Setenv(name, value)
				words = words[1:]
			}
			code, out, errs := called(t, words[1:]...)
			if code != cli.ExitMisuse || errs != want || out != "" {
				t.Errorf("exit code %d, %q, %q", code, errs, out)
			}
		})
	}
}
