package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// fix shows the steps for each queue, asks, and takes them. done is false if only the steps were to be shown.
func (c *examination) fix(ctx context.Context, checkup *doctor.Checkup, queues []string) (done bool, err error) {
	steps := 0
	all, err := checkup.Plans(ctx, queues, func(plan doctor.Plan) error {
		steps += len(plan.Steps())
		return c.show(plan)
	})
	if err != nil {
		return false, err
	}
	if c.dryRun || steps == 0 {
		return !c.dryRun, nil
	}
	which := "queue " + printable.Name(all[0].Queue)
	if len(all) > 1 {
		which = printable.Plural(len(all), "queue")
	}
	if err := c.Confirm(ctx, c.yes, true, "Fix "+which+"?"); err != nil {
		return false, err
	}
	for _, plan := range all {
		if err := c.carryOut(ctx, checkup, plan); err != nil {
			return false, err
		}
	}
	return true, nil
}

// show prints the steps for a queue, and the findings that a person must fix.
func (c *examination) show(plan doctor.Plan) error {
	steps := plan.Steps()
	left := slices.DeleteFunc(slices.Clone(plan.Fixes), func(x doctor.Fix) bool { return len(x.Steps) > 0 })
	var b strings.Builder
	switch {
	case len(steps) > 0:
		fmt.Fprintf(&b, "to fix queue %s:\n", printable.Name(plan.Queue))
	case len(plan.Fixes) == 0:
		fmt.Fprintf(&b, "queue %s needs no fix\n", printable.Name(plan.Queue))
	case plan.Shares():
		fmt.Fprintf(&b, "queue %s: the steps above are for it too\n", printable.Name(plan.Queue))
	default:
		fmt.Fprintf(&b, "queue %s: --fix leaves these findings to you\n", printable.Name(plan.Queue))
	}
	for i, s := range steps {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, printable.Text(s.String(), ""))
	}
	if len(steps) > 0 && plan.Shares() {
		fmt.Fprintln(&b, "  and the steps above that it shares")
	}
	for _, x := range left {
		of := ""
		if about := x.Finding.About; about != "" && about != plan.Queue {
			of = " of " + printable.Name(about)
		}
		fmt.Fprintf(&b, "  left: %s%s: %s\n", x.Finding.Code, of, printable.Text(whyLeft(x), ""))
	}
	_, err := fmt.Fprint(c.Out, b.String())
	return err
}

func whyLeft(x doctor.Fix) string {
	if len(x.Refused) > 0 {
		return strings.Join(x.Refused, "; ")
	}
	return cli.InFlags(x.Finding.Fix)
}

// carryOut takes the steps that were shown for a queue. It prints each one when it is done, and writes it to the
// audit log.
func (c *examination) carryOut(ctx context.Context, checkup *doctor.Checkup, plan doctor.Plan) error {
	if len(plan.Steps()) == 0 {
		return nil
	}
	var done []string
	left, err := plan.Do(ctx, checkup.Conn, func(s doctor.Step) {
		done = append(done, s.String())
		fmt.Fprintf(c.Out, "done: %s\n", printable.Text(s.String(), ""))
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("queue %q still has %s: %s", plan.Queue, printable.Plural(len(left), "finding"), left[0].Seen)
	}
	note := c.given()
	log := &ops.Queue{Store: checkup.Store, VHost: checkup.Conn.Config.Vhost, Name: plan.Named, Warn: unaudited(c.Err)}
	log.Audit(ctx, counter.AuditEntry{
		Actor: note.By, Verb: ops.VerbFix, Subject: plan.Queue, Reason: note.Why, Count: int64(len(done)),
	}, err)
	switch {
	case errors.Is(err, broker.ErrDenied):
		return fmt.Errorf("%w (to set a policy, the user needs the tag policymaker)", err)
	case err != nil:
		return fmt.Errorf("fix queue %q: %w", plan.Queue, err)
	}
	return nil
}
