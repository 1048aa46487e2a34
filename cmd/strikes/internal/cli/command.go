package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/internal/similar"
)

// New returns a command. Its use is its name and its arguments, such as "list QUEUE [ID…]": an argument in brackets
// may be missing, one that ends in … may repeat, and QUEUE must be a name that a queue can have. They are checked
// before run.
func New(use, short, long string, run func(ctx context.Context, args []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := SetFromEnvironment(cmd.Flags()); err != nil { // a flag may take the place of an argument
				return err
			}
			if err := checkArguments(cmd, args); err != nil {
				return seeHelp(cmd, err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) },
	}
	if !strings.Contains(use, "FILE") && !strings.Contains(use, "CMD") {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().SortFlags = false
	return cmd
}

// Group returns a command that only has subcommands.
func Group(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs, RunE: runGroup}
	cmd.AddCommand(commands...)
	return cmd
}

// runGroup prints help, or refuses an unknown subcommand. Cobra would print help and succeed.
func runGroup(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return cmd.Help()
}

func unknownCommand(parent *cobra.Command, name string) error {
	var names []string
	for _, sub := range parent.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return seeHelp(parent, Misusef("%s has no command %q%s", parent.CommandPath(), shownArgument(name),
		similar.Question(name, names, "")))
}

// seeHelp adds where to look to an error.
func seeHelp(cmd *cobra.Command, err error) error {
	return Misusef("%w (see %s --help)", err, cmd.CommandPath())
}

// insteadOfCommand is the annotation of a command that names the flag which takes the place of CMD.
const insteadOfCommand = "strikes_instead"

// InsteadOfCommand lets a flag take the place of what is after --.
func InsteadOfCommand(cmd *cobra.Command, flag string) {
	cmd.Annotations = map[string]string{insteadOfCommand: flag}
}

// checkArguments compares the arguments with those that the command's use calls for.
func checkArguments(cmd *cobra.Command, args []string) error {
	before, after, dash := strings.Cut(cmd.Use, " -- ")
	names := slices.DeleteFunc(strings.Fields(before)[1:], func(name string) bool { return name == "[flags]" })
	if !dash {
		return checkNames(names, args)
	}
	at := cmd.ArgsLenAtDash()
	other := cmd.Annotations[insteadOfCommand]
	switch {
	case other != "" && cmd.Flags().Changed(other) && at >= 0:
		return fmt.Errorf("--%s takes the place of a command; leave out -- and what follows", other)
	case other != "" && cmd.Flags().Changed(other):
		return checkNames(names, args)
	case other != "" && (at < 0 || at == len(args) || args[at] == ""):
		return fmt.Errorf("no command given; put it after --, as in: %s -- %s, or give --%s", before, after, other)
	case at < 0 || at == len(args) || args[at] == "":
		return fmt.Errorf("no command given; put it after --, as in: %s -- %s", before, after)
	case at < len(names) || args[0] == "":
		return fmt.Errorf("no %s given; put it before --", names[at])
	case at > len(names):
		return fmt.Errorf("%q is one argument too many before --", shownArgument(args[len(names)]))
	}
	return checkNames(names, args[:at])
}

func checkNames(names, args []string) error {
	need, most := 0, len(names)
	for _, name := range names {
		inner := strings.Trim(name, "[]")
		if inner == name {
			need++
		}
		if strings.HasSuffix(inner, "…") {
			most = math.MaxInt
		}
	}
	switch {
	case len(args) < need:
		return fmt.Errorf("%s is missing", names[len(args)])
	case len(args) > most:
		return fmt.Errorf("%q is one argument too many", shownArgument(args[most]))
	}
	for i, arg := range args {
		name := strings.Trim(names[min(i, len(names)-1)], "[]…")
		if arg == "" && name != "LANE" { // a lane may have the empty name
			return fmt.Errorf("%s is empty", name)
		}
		if name != "QUEUE" {
			continue
		}
		if err := queueinfo.CheckName(arg); err != nil {
			return fmt.Errorf("QUEUE: %w", err)
		}
	}
	return nil
}

// shownArgument is an argument as an error may quote it: a URL in the wrong place may hold a password.
func shownArgument(arg string) string {
	if strings.Contains(arg, "://") {
		return setting.RedactURL(arg)
	}
	return arg
}
