package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// changeVerb is one run of a verb that changes the records of a queue in the store. --dry-run shows the change, and a
// question comes before one that destroys. A note says who made it and why, and the result is printed.
type changeVerb struct {
	storeVerb
	note

	ask         ops.Ask // by the flags
	dryRun, yes bool
	check       func(ctx context.Context, queue string) error // before a change is planned; nil: none
}

// addChange adds the flags of a change that may ask a question. The help of --dry-run has done, such as "forgotten".
// That of --json has each: with " an id" it prints an object for each id.
func (c *changeVerb) addChange(cmd *cobra.Command, done, each string) {
	c.addDryRun(cmd, done)
	cmd.Flags().BoolVar(&c.yes, "yes", false, yesText)
	c.addOutput(cmd, "print one JSON object"+each)
}

func (c *changeVerb) addDryRun(cmd *cobra.Command, done string) {
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "only say what would be "+done)
}

// change plans a change for each id, passes over those of which nothing is counted, asks, and makes the changes. It
// returns the plans.
func (c *changeVerb) change(ctx context.Context, verb, queue string, ids ...string) (plans []ops.Plan, err error) {
	ask := c.ask
	if ask.Note = c.given(); c.required && ask.Note.Why == "" {
		return nil, cli.Misusef("--why is missing; say why you do it, the text is kept with the change")
	}
	err = c.withQueue(ctx, queue, func(q *ops.Queue) error {
		if c.check != nil {
			if err := c.check(ctx, q.Name); err != nil {
				return err
			}
		}
		var none []error
		for _, ask.ID = range ids {
			plan, err := ops.ChangeOf(verb).Plan(ctx, q, ask)
			switch {
			case errors.Is(err, ops.ErrNone):
				none = append(none, err)
			case err != nil:
				return err
			default:
				plans = append(plans, plan)
			}
		}
		if err := errors.Join(none...); err != nil && len(plans) == 0 {
			if ask.ID != "" {
				err = listed(err, queue)
			}
			return err
		}
		for _, err := range none {
			fmt.Fprintf(c.Err, "strikes: %s\n", printable.Text(err.Error(), ""))
		}
		return c.makeAll(ctx, q, plans)
	})
	return plans, err
}

// makeAll makes changes of one kind in a queue: it asks, makes one after the other, and prints those that were made.
// With --dry-run it prints all and makes none.
func (c *changeVerb) makeAll(ctx context.Context, q *ops.Queue, plans []ops.Plan) (err error) {
	if !c.dryRun {
		if question := plans[0].Question(len(plans)); question != "" {
			if err := c.Confirm(ctx, c.yes, true, question); err != nil {
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
		if c.json {
			err = errors.Join(err, jsonl.NewEncoder(c.Out).Encode(p))
		} else {
			_, unwritten := fmt.Fprintln(c.Out, p.Text())
			err = errors.Join(err, unwritten)
		}
	}
	return err
}

// note are the flags that say who makes a change, and why.
type note struct {
	why, by  string
	required bool // --why is
}

// addNote adds the flags of a change that needs a reason.
func (n *note) addNote(cmd *cobra.Command) {
	n.required = true
	n.add(cmd, "kept with the change", ", and required")
}

// addAudit adds the flags of a change whose note is kept in the audit log only, and may lack the reason.
func (n *note) addAudit(cmd *cobra.Command) { n.add(cmd, "kept in the audit log", "") }

func (n *note) add(cmd *cobra.Command, kept, required string) {
	f := cmd.Flags()
	f.StringVar(&n.why, "why", "", "why you do it, as `TEXT`; "+kept+required)
	f.StringVar(&n.by, "by", "", "who does it, as `NAME`; "+kept)
	cli.FromEnv(f, "by")
	cli.DefaultText(f, "by", "this user at this host")
}

// unaudited returns a function that prints the error of an audit log on w, once: mostly the store refuses all entries
// for one reason.
func unaudited(w io.Writer) func(error) {
	var once sync.Once
	return func(err error) { once.Do(func() { fmt.Fprintf(w, "strikes: %s\n", printable.Text(err.Error(), "")) }) }
}

// given returns the note, which may lack a reason.
func (n *note) given() counter.Note {
	return counter.Note{By: cmp.Or(n.by, thisUser()), Why: strings.TrimSpace(n.why)}
}

func thisUser() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
