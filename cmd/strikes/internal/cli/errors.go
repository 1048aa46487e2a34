package cli

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/topology"
)

// Complaint is what is said of an error at the end of a command; empty if there is none.
func Complaint(cmd *cobra.Command, err error) string {
	var refused *topology.RefusedError
	var field *setting.FieldError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled) && ExitCode(err) == ExitInterrupted:
		return interruption(err)
	case errors.As(err, &refused):
		// what wraps it says no more
		return Plain(refused) + "\nfor more, run: strikes doctor " + shell.Operands(refused.Queue)
	case errors.As(err, &field) && argumentOf(cmd, field.Field) != "":
		return InFlags(field.Of(argumentOf(cmd, field.Field)))
	}
	return Plain(err)
}

// libraries are the packages that begin their errors with their names.
var libraries = []string{"consumer", "counter", "deadletter", "publisher", "topology"}

// Plain is the text of an error for users, without the names of packages, and with flags for settings.
func Plain(err error) string {
	text := InFlags(err.Error())
	for _, name := range libraries {
		text = strings.ReplaceAll(strings.TrimPrefix(text, name+": "), ": "+name+": ", ": ")
	}
	return text
}

// interruption says what was cut short, unless that was a question to the store: what was done until then is printed
// before, or is in the error, as of declare.
func interruption(err error) string {
	var store *counter.StoreError
	if errors.As(err, &store) || err.Error() == context.Canceled.Error() {
		return "interrupted"
	}
	return "interrupted: " + Plain(err)
}

// flagsOfFields are the flags that set fields of other names.
var flagsOfFields = map[string]string{"Bindings": "bind", "ConfirmTimeout": "timeout", "Management": "management-url",
	"Target": "key"}

// argumentOf returns the flag or the argument of a command that sets a field which a library refused, such as Queue or
// Bindings[0].Exchange; empty if it has none.
func argumentOf(cmd *cobra.Command, field string) string {
	field, _, _ = strings.Cut(field, "[")
	name := cmp.Or(flagsOfFields[field], kebab(field))
	switch {
	case cmd == nil:
		return ""
	case cmd.Flags().Lookup(name) != nil:
		return "--" + name
	case slices.Contains(strings.Fields(cmd.Use), strings.ToUpper(field)):
		return strings.ToUpper(field)
	}
	return ""
}

// kebab turns MaxRetries into max-retries.
func kebab(field string) string {
	var b strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// inFlags has the command's words for settings that the library names in its texts.
var inFlags = strings.NewReplacer(
	"(Management)", "(--management-url)", "(AllowDrop)", "(--allow-drop)",
	"set HoldLanes and Lane to", "set --hold-lanes and --lane-header to",
	"topology.Declare with DelayQueues", "strikes declare --delay-queues QUEUE",
)

var raised = regexp.MustCompile(`(declare it again with x-delivery-limit=(\d+))( \(strikes declare [^)]*\))?`)

// InFlags returns a text of the library in which the settings to change are flags. It changes nothing in such a text.
func InFlags(text string) string {
	return raised.ReplaceAllString(inFlags.Replace(text), "$1 (strikes declare --delivery-limit $2)")
}
