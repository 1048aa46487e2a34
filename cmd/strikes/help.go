package main

import (
	"cmp"
	"context"
	"io"
	"slices"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

// noting passes on what is written, and notes the first error: the parser, which prints help and completion scripts, drops it
// or takes it for one of usage.
type noting struct {
	to  io.Writer
	err error
}

func (n *noting) Write(p []byte) (int, error) {
	done, err := n.to.Write(p)
	n.err = cmp.Or(n.err, err)
	return done, err
}

// helpCommand is the root's alone: a queue may be called help.
func (a *app) helpCommand() *urfave.Command {
	return &urfave.Command{
		Name:      "help",
		Usage:     "show the help of a command, as its --help does",
		ArgsUsage: "[COMMAND…]",
		Action: a.do(func(_ context.Context, c *urfave.Command) error {
			names, of := c.Args().Slice(), c.Root()
			for _, name := range names {
				parent := of
				if of = parent.Command(name); of == nil {
					return cli.Misusef("%s has no command %q (see %s --help)", parent.FullName(), shownArgument(name), parent.FullName())
				}
			}
			// In the action's context the commands would be called "strikes help strikes …".
			//nolint:contextcheck // it prints, and that is all
			return a.root().Run(context.Background(), slices.Concat([]string{"strikes"}, names, []string{"--help"}))
		}),
	}
}
