// Package cli is the frame of a command around cobra: its streams, help, flags, environment, errors, exit codes,
// signals and log.
package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
)

// Streams connect a command to the outside.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	Now <-chan struct{} // closes when the command must end without waiting for anything
}

// Cut says that --limit ended a list of things, and that there are more.
func (s Streams) Cut(limit int, thing, more string) error {
	_, err := fmt.Fprintf(s.Err, "--limit ends the list after %s; %s\n", printable.Plural(limit, thing), more)
	return err
}

// Run runs the command line args, whose first is the program's name, and returns the exit code.
func Run(ctx context.Context, s Streams, root *cobra.Command, args []string) int {
	out, began := &noting{to: s.Out}, false
	root.SetIn(s.In)
	root.SetOut(out)
	root.SetErr(s.Err)
	root.SetArgs(args[1:])
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	root.SetUsageTemplate(usage)
	root.SetHelpTemplate("{{.UsageString}}")
	root.SetFlagErrorFunc(flagMisuse)
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return cmp.Or(aliases[name], pflag.NormalizedName(name))
	})
	root.InitDefaultVersionFlag() // before a command is looked for, so that the flag takes no value
	root.InitDefaultCompletionCmd()
	prepare(root)
	refuseTopic(root)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case out.err != nil:
		err = out.err
	case err != nil && !began && !errors.As(err, new(Coded)): // of cobra: the command line
		err = Misuse(err)
	}
	if text := Complaint(cmd, err); text != "" {
		fmt.Fprintf(s.Err, "strikes: %s\n", printable.Text(text, "\n"))
	}
	return ExitCode(err)
}

// noting passes on writes, and keeps the first error, because cobra would print it and succeed.
type noting struct {
	to  io.Writer
	err error
}

func (n *noting) Write(p []byte) (int, error) {
	if n.err == nil {
		_, n.err = n.to.Write(p)
	}
	return len(p), nil
}

// prepare completes a command and those below it. A command without a Run of its own prints its help. The others read
// their flags from the environment before their arguments are checked.
func prepare(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		prepare(sub)
	}
	cmd.Flags().SortFlags = false
	if cmd.HasSubCommands() {
		cmd.Args, cmd.RunE = refuseUnknown, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		return
	}
	if !strings.Contains(cmd.Use, "FILE") && !strings.Contains(cmd.Use, "CMD") {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	count := cmd.Args
	if count == nil {
		count = CountArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := SetFromEnvironment(cmd.Flags()); err != nil {
			return err
		}
		err := count(cmd, args)
		if err == nil {
			err = checkNames(cmd, args)
		}
		if err != nil {
			return Misusef("%w (usage: %s)", err, cmd.UseLine())
		}
		return nil
	}
}

// CountArgs refuses a number of arguments that Use does not allow, and names the first that is missing or too many.
func CountArgs(cmd *cobra.Command, args []string) error {
	operands, _, _ := strings.Cut(cmd.Use, " [flags]")
	names := strings.Fields(operands)[1:]
	switch n := len(args); {
	case n < len(names) && names[n][0] != '[':
		return fmt.Errorf("%s is missing", strings.Trim(names[n], "…"))
	case n > len(names) && !strings.Contains(operands, "…"):
		return fmt.Errorf("there is an argument too many: %q", quotable(args[len(names)]))
	}
	return nil
}

// checkNames refuses an empty argument, and a QUEUE with a name that no queue can have. A LANE may be empty, and the
// arguments of a CMD may be anything.
func checkNames(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	if strings.Contains(cmd.Use, "CMD") {
		args = args[:1]
	}
	for i, arg := range args {
		name := strings.Trim(names[min(i, len(names)-1)], "[]…")
		if arg == "" && name != "LANE" {
			return fmt.Errorf("%s is empty", name)
		}
		if name != "QUEUE" {
			continue
		}
		if err := broker.CheckName(arg); err != nil {
			return fmt.Errorf("QUEUE: %w", err)
		}
	}
	return nil
}

// refuseUnknown refuses an argument of a command that only has subcommands. Cobra would print help and succeed.
func refuseUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	like := ""
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		like = fmt.Sprintf("; did you mean %q?", names[0])
	}
	return Misusef("%s has no command %q%s (see %s --help)", cmd.CommandPath(), quotable(args[0]), like, cmd.CommandPath())
}

// refuseTopic has "help TOPIC" refuse an unknown TOPIC. Cobra would print the help of the root and succeed.
func refuseTopic(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error {
		of, rest, err := root.Find(args)
		if err == nil && of.HasSubCommands() {
			return refuseUnknown(of, rest)
		}
		return err
	}
}

// quotable is an argument as an error may quote it: a URL in the wrong place may hold a password.
func quotable(arg string) string {
	if strings.Contains(arg, "://") {
		return setting.RedactURL(arg)
	}
	return arg
}

// Confirm returns nil if a destructive step may be taken: yes is true, or the user at the terminal agrees. Without a
// terminal it points at --dry-run if the command has it.
func (s Streams) Confirm(ctx context.Context, yes, dryRun bool, question string) error {
	switch {
	case yes:
		return nil
	case !term.IsTerminal(s.In) || !term.IsTerminal(s.Err):
		hint := ""
		if dryRun {
			hint = " (--dry-run shows what would be done)"
		}
		if question != "" {
			hint += ": " + question
		}
		return Misusef("nothing is done without --yes, because there is no terminal to ask at%s", hint)
	}
	fmt.Fprintf(s.Err, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // nothing ends the read of the answer, and after an interruption the process is about to end
		answer, _ := bufio.NewReader(s.In).ReadString('\n') // the end of the input is a no
		answers <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return Misusef("nothing is done")
	case <-ctx.Done():
		fmt.Fprintln(s.Err)
		return fmt.Errorf("nothing is done: %w", ctx.Err())
	}
}

// SameSignal is the time within which two signals are one: timeout(1) sends its own to the process, and then to its
// group.
const SameSignal = 200 * time.Millisecond

// Interruptible returns a context that ends with the first SIGINT, SIGTERM or SIGHUP, and a channel that closes with
// the second SIGINT or SIGTERM. A third one has its usual effect, should the second hang.
func Interruptible(parent context.Context) (context.Context, <-chan struct{}) {
	ctx, cancel := context.WithCancel(parent)
	now := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() { // for as long as the process lives
		twoOf(signals, cancel)
		signal.Stop(signals)
		close(now)
	}()
	return ctx, now
}

// twoOf calls first at the first signal, and returns at the second.
func twoOf(signals <-chan os.Signal, first func()) {
	<-signals
	first()
	for began := time.Now(); ; {
		// a shell and the kernel both send SIGHUP as a terminal is closed
		if s := <-signals; s != syscall.SIGHUP && time.Since(began) >= SameSignal {
			return
		}
	}
}
