package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/records"
)

func (a *app) grantCommand() *cobra.Command {
	var o grantOptions
	cmd := cli.New("grant QUEUE ID N", "give one message N more attempts than its limit", `
Takes effect at the message's next step, on every consumer. Grants add up to 1000 at most. A message gets 1001 attempts at most, so that its
record stays under 24 KiB. Put an ID that begins with - after --. A message that is already dead-lettered is replayed instead.`[1:],
		func(ctx context.Context, args []string) error { return a.grantTries(ctx, o, args) })
	o.roomOptions.addTo(cmd)
	o.addNote(cmd)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only say what would be granted")
	cli.JSON(cmd.Flags(), &o.json, "print one JSON object")
	return cmd
}

// grantOptions are the flags of counter grant.
type grantOptions struct {
	roomOptions
	noteOptions
	changeOptions
}

func (a *app) grantTries(ctx context.Context, o grantOptions, args []string) error {
	attempts, err := strconv.Atoi(args[2])
	if err != nil || attempts < 1 || attempts > counter.MaxGrant {
		return cli.Misusef("N must be a number of attempts, 1 to %d, got %q", counter.MaxGrant, args[2])
	}
	why, err := o.note()
	if err != nil {
		return err
	}
	return a.withQueue(ctx, o.storeOptions, args[0], func(q *records.Queue) error {
		plan, err := q.PlanGrant(ctx, args[1], attempts, why)
		if err != nil {
			return err
		}
		if err := a.checkRoom(ctx, o.roomOptions, q.Name, plan.Retries()); err != nil {
			return err
		}
		return change[records.Grant]{steps: []records.Grant{plan}, do: q.Grant, text: grantText}.make(ctx, a, o.changeOptions)
	})
}

func grantText(g records.Grant) string {
	verb := "would be granted"
	if g.Done {
		verb = "granted"
	}
	now := term.Plural(g.FailedAttempts, "failed attempt")
	if g.Limit > 0 {
		now += fmt.Sprintf(", limit %d", g.Limit)
	}
	return fmt.Sprintf("%s: %s %s (%s)", term.Shown(g.ID), verb, term.Plural(g.Attempts, "more attempt"), now)
}
