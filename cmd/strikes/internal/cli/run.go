package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/topology"
)

// aliases are other names of flags.
var aliases = map[string]pflag.NormalizedName{"dlq": "dead-letter-queue"}

// keepOrder lists commands in the order in which they were added. The setting is cobra's, for all commands of the
// process.
var keepOrder = sync.OnceFunc(func() { cobra.EnableCommandSorting = false })

// Root makes a command the root of the program.
func Root(s Streams, root *cobra.Command) *cobra.Command {
	keepOrder()
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
