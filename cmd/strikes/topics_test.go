package main

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/ops"
)

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
		{"words", []string{"status"}, []string{string(ops.Running), string(ops.Isolated), string(ops.Left),
			string(ops.Waiting), string(ops.Ready), string(ops.Forgotten)}},
		{"words", nil, []string{"breaker", "doubt", "probe"}},
		{"words", nil, []string{
			string(ops.TroubleRoute), string(ops.TroubleBlocked), string(ops.TroubleUnaccounted),
			string(ops.TroubleUnsafe), string(ops.TroubleStopped), string(ops.TroubleLanes),
			string(ops.TroubleRetrying), string(ops.TroubleDead),
		}},
	}
	readme, err := os.ReadFile("../../docs/cli.md")
	need(t, err)
	for _, tt := range tests {
		topic := "\n" + helpText(t, tt.topic)
		for _, word := range tt.words {
			if !strings.Contains(topic, "\n  "+word+"  ") {
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

// TestFieldsAreExplained: strikes help words explains each field of status --json that does not speak for itself.
func TestFieldsAreExplained(t *testing.T) {
	t.Parallel()
	plain := []string{"vhost", "queue", "ready", "unacked", "consumers", "rates", "partitions", "paused", "breaker"}
	for of, status := range map[string]reflect.Type{"status --json without QUEUE": reflect.TypeFor[ops.Summary](),
		"status QUEUE --json": reflect.TypeFor[ops.Status]()} {
		words := helpText(t, "words")
		_, fields, _ := strings.Cut(words, "Fields of "+of+":")
		fields, _, _ = strings.Cut(fields, "\n\n")
		for f := range status.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && name != "-" && !slices.Contains(plain, name) && !strings.Contains(fields, "\n  "+name+"  ") &&
				!strings.Contains(words, "\n"+name+" in "+of) {
				t.Errorf("strikes help words does not explain %s of %s", name, of)
			}
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
