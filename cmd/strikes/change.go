package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/records"
)

// withQueue opens the records of a queue for f, and closes them. Without a --vhost the URL of the broker names it; the broker is
// not asked.
func (a *app) withQueue(ctx context.Context, o storeOptions, queue string, f func(*records.Queue) error) error {
	vhost := o.VHost
	if vhost == "" {
		b, err := o.Broker()
		if err != nil {
			return err
		}
		vhost = b.VHost
	}
	store, err := o.Store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	err = f(&records.Queue{Store: store.Admin(), VHost: vhost, Name: queue, Warn: func(err error) {
		fmt.Fprintf(a.Err, "strikes: %s\n", term.Printable(err.Error(), ""))
	}})
	return explainRecords(err, o.RedisURL)
}

// explainRecords adds the fix and the exit code to an error of package records.
func explainRecords(err error, storeURL string) error {
	var foreign *records.ForeignError
	switch {
	case errors.As(err, &foreign):
		return fmt.Errorf("%w, and was not written by it; until it is gone, consumers hold the message (store out of reach); "+
			"look at it, then remove it: %s", err, redisCLI(storeURL, append([]string{"DEL"}, foreign.Keys...)...))
	case errors.Is(err, records.ErrNone):
		return cli.WithCode(err, cli.ExitNothing)
	case errors.Is(err, counter.ErrOver):
		return cli.Misusef("%w: nothing is granted; replay what is in the dead-letter queue instead", err)
	}
	return err
}

// changeOptions are the flags of a change.
type changeOptions struct{ dryRun, yes, json bool }

func (o *changeOptions) addChange(cmd *cobra.Command, done, each string) {
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "only say what would be "+done)
	f.BoolVar(&o.yes, "yes", false, "do not ask; required where there is no terminal to ask at")
	cli.JSON(f, &o.json, "print one JSON object"+each)
}

// change is what an operator is about to change, step by step. A step that is done is printed; with --dry-run all are.
type change[T any] struct {
	steps    []T
	question string // asked before, unless it is empty or --yes is given
	do       func(context.Context, *T) error
	text     func(T) string
}

// make makes the change.
func (ch change[T]) make(ctx context.Context, a *app, o changeOptions) (err error) {
	steps := ch.steps
	if !o.dryRun {
		if ch.question != "" {
			if err := a.Confirm(ctx, o.yes, ch.question); err != nil {
				return err
			}
		}
		for i := range steps {
			if err = ch.do(ctx, &steps[i]); err != nil {
				steps = steps[:i]
				break
			}
		}
	}
	return errors.Join(printSteps(a.Out, steps, o.json, ch.text), err)
}

func printSteps[T any](w io.Writer, steps []T, asJSON bool, text func(T) string) (err error) {
	for _, s := range steps {
		if asJSON {
			err = jsonl.NewEncoder(w).Encode(s)
		} else {
			_, err = fmt.Fprintln(w, text(s))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
