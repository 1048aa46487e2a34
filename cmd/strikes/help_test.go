//go:build unix

package main

import (
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/ops"
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

// TestWordsAreExplained: a help topic explains each word that a command prints, the help of the command names the
// topic, and docs/cli.md explains the word, too.
func TestWordsAreExplained(t *testing.T) {
	t.Parallel()
	var kinds []string
	for _, k := range deadletter.Kinds() {
		kinds = append(kinds, string(k))
	}
	decisions := []string{
		string(consumer.OutcomeAck), string(consumer.OutcomeRetry), string(consumer.OutcomeRequeue),
		string(consumer.OutcomeDeadLetter), string(consumer.OutcomeIsolate), string(consumer.OutcomeMove),
		string(consumer.OutcomeSuperseded),
		string(consumer.OutcomeHold), string(consumer.OutcomeNotCounted), string(consumer.OutcomeCrash),
		string(consumer.OutcomeLeave), string(consumer.OutcomeUndecodable),
		string(counter.CauseFailed), string(counter.CausePanicked), string(counter.CauseTimedOut),
		string(counter.CauseRejected),
		string(counter.CauseCrashed), string(counter.CauseSkipped), string(counter.CauseTooOld), string(counter.CauseNoID),
	}
	tests := []struct {
		topic    string
		commands []string // whose help names the topic
		words    []string
	}{
		{"words", []string{"consume"}, decisions},
		{"words", []string{"counter list", "counter get"}, []string{string(ops.Running), string(ops.Retrying),
			string(ops.WasReset), string(ops.Skipped), string(ops.DeadLettered), string(ops.Done)}},
		{"dead-letters", []string{"dead list", "dead show", "dead replay", "dead drop", "lane replay", "status"}, kinds},
		{"words", nil, []string{"breaker", "doubt", "probe"}},
		{"", nil, []string{ // of JSON: only docs/cli.md explains them
			string(ops.TroubleRoute), string(ops.TroubleBlocked), string(ops.TroubleUnaccounted),
			string(ops.TroubleUnsafe), string(ops.TroubleStopped), string(ops.TroubleLanes),
			string(ops.TroubleRetrying), string(ops.TroubleDead), string(ops.Running), string(ops.Isolated),
			string(ops.Left), string(ops.Waiting), string(ops.Ready), string(ops.Forgotten),
		}},
	}
	readme, err := os.ReadFile("../../docs/cli.md")
	need(t, err)
	for _, tt := range tests {
		topic := "\n" + helpText(t, tt.topic)
		for _, word := range tt.words {
			if tt.topic != "" && !strings.Contains(topic, "\n  "+word+"  ") {
				t.Errorf("strikes help %s does not explain %q", tt.topic, word)
			}
			if !strings.Contains(string(readme), "`"+word+"`") {
				t.Errorf("docs/cli.md does not explain %q", word)
			}
		}
		for _, command := range tt.commands {
			if text := strings.Join(strings.Fields(helpText(t, command)), " "); !strings.Contains(text, "help "+tt.topic) {
				t.Errorf("the help of %s does not say where its words are explained:\n%s", command, text)
			}
		}
	}
}

// TestFieldsAreExplained: docs/cli.md explains each field of status --json that does not speak for itself.
func TestFieldsAreExplained(t *testing.T) {
	t.Parallel()
	plain := []string{"vhost", "queue", "ready", "unacked", "consumers", "rates", "partitions", "paused", "breaker",
		"trouble"}
	text, err := os.ReadFile("../../docs/cli.md")
	need(t, err)
	_, fields, _ := strings.Cut(string(text), "Fields of a queue in `status --json`:")
	fields, _, _ = strings.Cut(fields, "\n\n")
	for f := range reflect.TypeFor[ops.Status]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" && !slices.Contains(plain, name) && !strings.Contains(fields, "\n- `"+name+"`: ") {
			t.Errorf("docs/cli.md does not explain %s", name)
		}
	}
}

// helpText is the text that strikes help prints about a command or a topic.
func helpText(t *testing.T, of string) string {
	t.Helper()
	code, out, errs := called(t, append([]string{"help"}, strings.Fields(of)...)...)
	if code != 0 {
		t.Errorf("strikes help %s: exit code %d: %s", of, code, errs)
	}
	return out
}

// TestDefaultsAreShown: a default that a text describes is shown once, as that text.
func TestDefaultsAreShown(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"declare", "dead show", "dead list", "status", "demo", "limit set", "console",
		"export", "servers"} {
		if text := helpText(t, command); !strings.Contains(text, "(default ") || strings.Contains(text, "(default )") ||
			strings.Contains(text, "`") {
			t.Errorf("the help of %s:\n%s", command, text)
		}
	}
}
