// Package change makes the changes of operators: --dry-run shows a change, a question comes before one that destroys, a
// note says who made it and why, and the result is printed.
package change

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/ops"
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

// Make makes changes of one kind in a queue: it asks, makes one after the other, and prints those that were made. With
// --dry-run it prints all and makes none.
func Make(ctx context.Context, s cli.Streams, o Options, q *ops.Queue, plans []ops.Plan) (err error) {
	if !o.DryRun {
		if question := plans[0].Question(len(plans)); question != "" {
			if err := s.Confirm(ctx, o.Yes, true, question); err != nil {
				return err
			}
		}
		for i, p := range plans {
			if err = p.Do(ctx, q); err != nil {
				plans = plans[:i]
				break
			}
		}
	}
	for _, p := range plans {
		if o.JSON {
			err = errors.Join(err, jsonl.NewEncoder(s.Out).Encode(p))
		} else {
			_, unwritten := fmt.Fprintln(s.Out, p.Text())
			err = errors.Join(err, unwritten)
		}
	}
	return err
}
