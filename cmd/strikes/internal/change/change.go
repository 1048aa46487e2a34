// Package change makes the changes of operators: --dry-run shows a change, a question comes before one that destroys, a
// note says who made it and why, and what was done is printed.
package change

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
)

// Options are the flags of a change.
type Options struct{ DryRun, Yes, JSON bool }

// AddChange adds the flags of a change that may ask a question. The help says what is done, and for each of what --json
// prints an object.
func (o *Options) AddChange(cmd *cobra.Command, done, each string) {
	o.AddDryRun(cmd, done)
	cmd.Flags().BoolVar(&o.Yes, "yes", false, "do not ask; required where there is no terminal to ask at")
	cli.JSON(cmd.Flags(), &o.JSON, "print one JSON object"+each)
}

// AddDryRun adds --dry-run.
func (o *Options) AddDryRun(cmd *cobra.Command, done string) {
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "only say what would be "+done)
}

// Change is what an operator is about to change, step by step.
type Change[T any] struct {
	Steps    []T
	Question string // asked before, unless it is empty or --yes is given
	Do       func(context.Context, *T) error
	Text     func(T) string
}

// Make makes the change. It prints the steps that were done; with --dry-run it prints all and does none.
func (ch Change[T]) Make(ctx context.Context, s cli.Streams, o Options) (err error) {
	steps := ch.Steps
	if !o.DryRun {
		if ch.Question != "" {
			if err := s.Confirm(ctx, o.Yes, true, ch.Question); err != nil {
				return err
			}
		}
		for i := range steps {
			if err = ch.Do(ctx, &steps[i]); err != nil {
				steps = steps[:i]
				break
			}
		}
	}
	return errors.Join(ch.print(s.Out, steps, o.JSON), err)
}

func (ch Change[T]) print(w io.Writer, steps []T, asJSON bool) (err error) {
	for _, step := range steps {
		if asJSON {
			err = jsonl.NewEncoder(w).Encode(step)
		} else {
			_, err = fmt.Fprintln(w, ch.Text(step))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
