package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/topology"
)

// aliases are other names of flags.
var aliases = map[string]pflag.NormalizedName{"dlq": "dead-letter-queue"}

// Root makes a command the root of the program.
func Root(s Streams, root *cobra.Command) *cobra.Command {
	cobra.EnableCommandSorting = false
	root.SilenceErrors, root.SilenceUsage, root.TraverseChildren = true, true, true
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprint(cmd.OutOrStdout(), help(cmd, helpWidth(s.Out)))
	})
	root.SetFlagErrorFunc(flagMisuse)
	root.SetHelpCommand(helpCommand())
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return cmp.Or(aliases[name], pflag.NormalizedName(name))
	})
	return root
}

// Run runs the command line args, whose first is the program's name, and returns the exit code.
func Run(ctx context.Context, s Streams, root *cobra.Command, args []string) int {
	out := &noting{to: s.Out}
	root.SetIn(s.In)
	root.SetOut(out)
	root.SetErr(s.Err)
	root.SetArgs(args[1:])
	addCompletion(root)
	cmd, err := root.ExecuteContextC(ctx)
	if unknown := new(pflag.NotExistError); errors.As(err, &unknown) { // of a flag before a subcommand
		err = flagMisuse(cmd, err)
	}
	if out.err != nil {
		err = out.err
	}
	if text := Complaint(cmd, err); text != "" {
		fmt.Fprintf(s.Err, "strikes: %s\n", term.Printable(text, "\n"))
	}
	return ExitCode(err)
}

// addCompletion adds Cobra's command that prints completion scripts, which keeps the stdout that the root has by now.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if completion := subcommand(root, "completion"); completion != nil {
		completion.Short, completion.RunE, completion.Args = "print a completion script for a shell", runGroup, cobra.ArbitraryArgs
	}
}

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
		return plain(refused.Error()) // what wraps it says no more
	case errors.As(err, &field) && flagOf(cmd, field.Field) != "":
		return field.Of(flagOf(cmd, field.Field))
	}
	return plain(err.Error())
}

// libraries are the packages that begin their errors with their names.
var libraries = []string{"consumer", "counter", "deadletter", "publisher", "topology"}

// plain leaves the names of packages out of a text for users.
func plain(text string) string {
	for _, name := range libraries {
		text = strings.ReplaceAll(strings.TrimPrefix(text, name+": "), ": "+name+": ", ": ")
	}
	return text
}

// interruption says what was cut short, unless that was a question to the store: what was done until then is printed before,
// or is in the error, as of declare.
func interruption(err error) string {
	var store *counter.StoreError
	if errors.As(err, &store) || err.Error() == context.Canceled.Error() {
		return "interrupted"
	}
	return "interrupted: " + plain(err.Error())
}

// flagsOfFields are the flags that set fields of other names.
var flagsOfFields = map[string]string{"ConfirmTimeout": "timeout", "Management": "management-url", "Target": "key", "Why": "reason"}

// flagOf returns the flag of a command that sets a field which a library refused; empty if it has none.
func flagOf(cmd *cobra.Command, field string) string {
	name := cmp.Or(flagsOfFields[field], kebab(field))
	if cmd == nil || cmd.Flags().Lookup(name) == nil {
		return ""
	}
	return "--" + name
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
