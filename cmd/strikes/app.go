package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/topology"
)

// app is one run of the program.
type app struct {
	cli.Streams
	trailing []string        // arguments after the first "--"
	command  *urfave.Command // that ran
	err      error           // of its action
	help     noting          // stdout, for the parser
}

// run runs the command line args, whose first is the program's name, and returns the exit code.
func run(ctx context.Context, s cli.Streams, args []string) int {
	a := &app{Streams: s, trailing: trailing(args), help: noting{to: s.Out}}
	err := a.root().Run(ctx, args)
	switch {
	case a.err != nil:
		err = a.err
	case a.help.err != nil:
		err = a.help.err
	case err != nil:
		err = cmp.Or(misuse(a.root(), args), cli.Misuse(err)) // the parser's
	}
	if text := a.complaint(err); text != "" {
		fmt.Fprintf(a.Err, "strikes: %s\n", term.Printable(text, "\n"))
	}
	return cli.ExitCode(err)
}

// complaint is what is said of an error at the end.
func (a *app) complaint(err error) string {
	var refused *topology.RefusedError
	var field *setting.FieldError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled) && cli.ExitCode(err) == cli.ExitInterrupted:
		return interruption(err)
	case errors.As(err, &refused):
		return refused.Error() // what wraps it says no more
	case errors.As(err, &field) && a.flagOf(field.Field) != "":
		return field.Of(a.flagOf(field.Field))
	}
	return err.Error()
}

// fieldFlags maps the fields that a library may refuse to the flags that set them.
var fieldFlags = map[string]string{
	"AllowDrop": "allow-drop", "Concurrency": "concurrency", "ConfirmTimeout": "timeout", "ConsumerTimeout": "consumer-timeout",
	"DeliveryLimit": "delivery-limit", "DrainTimeout": "drain-timeout", "HandlerTimeout": "handler-timeout", "Isolation": "isolation",
	"Lane": "lane", "Management": "management-url", "Max": "max", "MaxRetries": "max-retries", "Ordered": "ordered",
	"Prefetch": "prefetch", "Prefix": "prefix", "Rate": "rate", "Retry": "retry", "Target": "key", "Type": "type", "Why": "reason",
	"Window": "window",
}

// flagOf returns the flag that sets a field, of the command that ran; "" if it has none.
func (a *app) flagOf(name string) string {
	if flag := fieldFlags[name]; flag != "" && a.command != nil && flagNamed(a.command, flag) != nil {
		return "--" + flag
	}
	return ""
}

// interruption says what was cut short, unless that was a question to the store: what was done until then is printed before,
// or is in the error, as of declare.
func interruption(err error) string {
	var store *counter.StoreError
	if errors.As(err, &store) || err.Error() == context.Canceled.Error() {
		return "interrupted"
	}
	return "interrupted: " + err.Error()
}

// trailing returns what follows the first "--", which the parser does not tell apart from what precedes it.
func trailing(args []string) []string {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[i+1:]
	}
	return nil
}

func (a *app) root() *urfave.Command {
	root := &urfave.Command{
		Name:        "strikes",
		Usage:       "retry RabbitMQ messages an exact number of times, counted in Redis",
		Description: cli.ExitCodes,
		Commands: []*urfave.Command{
			a.demoCommand(), a.declareCommand(), a.publishCommand(), a.consumeCommand(), a.doctorCommand(),
			a.statusCommand(), a.deadCommand(), a.counterCommand(), a.limitCommand(),
			a.versionCommand(), a.helpCommand(), a.demoWorkerCommand(),
		},
		Flags:  []urfave.Flag{&urfave.BoolFlag{Name: "version", Local: true, Usage: "say which build this is, and nothing else"}},
		Before: versionAlone,
		Action: a.do(func(ctx context.Context, c *urfave.Command) error {
			if c.Bool("version") {
				return a.printVersion(false)
			}
			return group(ctx, c)
		}),
		EnableShellCompletion:           true,
		ConfigureShellCompletionCommand: func(c *urfave.Command) { c.Hidden = false; c.Usage = "print a completion script" },
		HideVersion:                     true,
		Reader:                          a.In,
		Writer:                          &a.help,
		ErrWriter:                       a.Err,
		ExitErrHandler:                  func(context.Context, *urfave.Command, error) {},
	}
	quiet(root)
	return root
}

// quiet keeps the parser from printing its errors: run does. A command without subcommands gets no "help" of its own, for a
// queue may have that name.
func quiet(c *urfave.Command) {
	c.OnUsageError = func(_ context.Context, c *urfave.Command, err error, _ bool) error {
		return fmt.Errorf("%w (see %s --help)", err, c.FullName())
	}
	c.HideHelpCommand = true
	if len(c.Commands) == 0 { // else: COMMAND ARGUMENT --help
		c.CommandNotFound = func(_ context.Context, c *urfave.Command, _ string) { _ = urfave.ShowSubcommandHelp(c) }
	}
	for _, sub := range c.Commands {
		quiet(sub)
	}
}

// do keeps an action's error apart from the parser's.
func (a *app) do(action func(context.Context, *urfave.Command) error) urfave.ActionFunc {
	return func(ctx context.Context, c *urfave.Command) error {
		a.command, a.err = c, action(ctx, c)
		return nil
	}
}

// group is the action of a command that only has subcommands.
func group(_ context.Context, c *urfave.Command) error {
	if c.Args().Present() {
		return cli.Misusef("%s has no command %q (see %s --help)", c.FullName(), shownArgument(c.Args().First()), c.FullName())
	}
	return urfave.ShowSubcommandHelp(c)
}

// positional returns the arguments that names call for. A name in brackets may be missing, one that ends in … may repeat;
// what stands for a QUEUE must be a name that a queue can have.
func positional(c *urfave.Command, names ...string) ([]string, error) {
	args, need, most := c.Args().Slice(), 0, 0
	for _, name := range names {
		inner := strings.Trim(name, "[]")
		if inner == name {
			need++
		}
		if most++; strings.HasSuffix(inner, "…") {
			most = math.MaxInt
		}
	}
	switch {
	case len(args) < need:
		return nil, cli.Misusef("%s: %s is missing (see %s --help)", c.FullName(), names[len(args)], c.FullName())
	case len(args) > most:
		return nil, cli.Misusef("%s: %q is one argument too many (see %s --help)", c.FullName(), shownArgument(args[most]), c.FullName())
	}
	for i, arg := range args {
		name := names[min(i, len(names)-1)]
		name = strings.Trim(name, "[]…")
		if arg == "" {
			return nil, cli.Misusef("%s: %s is empty (see %s --help)", c.FullName(), name, c.FullName())
		}
		if name != "QUEUE" {
			continue
		}
		if err := queueinfo.CheckName(arg); err != nil {
			return nil, cli.Misusef("%s: QUEUE: %w", c.FullName(), err)
		}
	}
	return args, nil
}
