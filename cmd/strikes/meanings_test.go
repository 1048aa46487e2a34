package main

import (
	"os"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/clitest"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/records"
	"github.com/strikesmq/strikes/internal/status"
)

// TestWordsAreExplained: the help of what prints a word explains it, and so does docs/cli.md.
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
		commands []string
		meanings string
		words    []string
	}{
		{[]string{"consume"}, decisionMeanings, decisions},
		{[]string{"counter list", "counter get"}, stateMeanings, []string{string(records.Running), string(records.Retrying),
			string(records.Skipped), string(records.DeadLettered), string(records.Done)}},
		{[]string{"dead list", "dead show", "dead replay", "dead drop"}, kindMeanings, kinds},
		{[]string{"status"}, blockMeanings, []string{string(status.Running), string(status.Isolated), string(status.Left),
			string(status.Waiting), string(status.Ready), string(status.Forgotten)}},
		{[]string{"status"}, troubleMeanings, []string{
			string(status.TroubleRoute), string(status.TroubleBlocked), string(status.TroubleUnaccounted),
			string(status.TroubleUnsafe), string(status.TroubleStopped), string(status.TroubleRetrying),
			string(status.TroubleDead),
		}},
	}
	readme, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		for _, word := range tt.words {
			if !strings.Contains(" "+strings.ReplaceAll(tt.meanings, "\n", " "), " "+word) {
				t.Errorf("%q: %q is not explained", tt.commands, word)
			}
			if !strings.Contains(string(readme), "`"+word+"`") {
				t.Errorf("%q: docs/cli.md does not explain %q", tt.commands, word)
			}
		}
		for _, command := range tt.commands {
			var out clitest.Output
			run(t.Context(), cli.Streams{Out: &out, Err: &out}, append([]string{"strikes", "help"}, strings.Fields(command)...))
			if want, got := strings.Join(strings.Fields(tt.meanings), " "), strings.Join(strings.Fields(out.String()),
				" "); !strings.Contains(got, want) {
				t.Errorf("the help of %s does not explain its words:\n%s", command, &out)
			}
		}
	}
}

// TestDefaultsAreShown: a default that a text describes is shown once, as that text.
func TestDefaultsAreShown(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"declare", "dead show", "dead list", "status", "demo", "limit set", "console",
		"export"} {
		var out clitest.Output
		run(t.Context(), cli.Streams{Out: &out, Err: &out}, append([]string{"strikes", "help"}, strings.Fields(command)...))
		if text := out.String(); !strings.Contains(text, "(default ") || strings.Contains(text, "(default )") ||
			strings.Contains(text, "`") {
			t.Errorf("the help of %s:\n%s", command, text)
		}
	}
}
