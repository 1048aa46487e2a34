package main

import (
	"context"
	"fmt"
	"strconv"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/records"
)

func (a *app) grantCommand() *urfave.Command {
	return &urfave.Command{
		Name: "grant", Usage: "give one message N more tries than its limit",
		ArgsUsage: "QUEUE ID N",
		Description: "In force at the message's next step, on every consumer. Grants add up to 1000 at most. A message gets 1001 attempts\n" +
			"at most, so that its record stays under 24 KiB. Put an ID that begins with - after --.\n" +
			"What was dead-lettered already is replayed instead.",
		Flags: storeFlags(noteFlags(roomFlags(
			&urfave.BoolFlag{Name: "dry-run", Usage: "only say what would be granted"},
			jsonFlag("print one JSON object"),
		)...)...),
		Action: a.do(a.grantTries),
	}
}

func (a *app) grantTries(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE", "ID", "N")
	if err != nil {
		return err
	}
	attempts, err := strconv.Atoi(args[2])
	if err != nil || attempts < 1 || attempts > counter.MaxGrant {
		return cli.Misusef("%s: N is %q: it is a number of attempts, 1 to %d", c.FullName(), args[2], counter.MaxGrant)
	}
	why, err := noteOf(c)
	if err != nil {
		return err
	}
	return a.withQueue(ctx, c, args[0], func(q *records.Queue) error {
		plan, err := q.PlanGrant(ctx, args[1], attempts, why)
		if err != nil {
			return err
		}
		if err := a.checkRoom(ctx, c, q.Name, plan.Retries()); err != nil {
			return err
		}
		return change[records.Grant]{steps: []records.Grant{plan}, do: q.Grant, text: grantText}.make(ctx, a, c)
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
