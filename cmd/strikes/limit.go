package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

func (a *app) limitCommand() *cobra.Command {
	return cli.Group("limit", "show, set and clear how many attempts the messages of a queue get",
		a.limitGetCommand(), a.limitSetCommand(), a.limitClearCommand())
}

func (a *app) limitGetCommand() *cobra.Command {
	var o limitOptions
	cmd := cli.New("get QUEUE", "show the limit that was set in place of the consumers' own (exit 3: none)", "",
		func(ctx context.Context, args []string) error { return a.getLimit(ctx, o, args[0]) })
	o.storeOptions.addTo(cmd)
	cli.JSON(cmd.Flags(), &o.json, "print one JSON object")
	return cmd
}

func (a *app) limitSetCommand() *cobra.Command {
	var o limitOptions
	cmd := cli.New("set QUEUE N", "have messages retried N times after their first failure, whatever the consumers are configured with", `
In force at each message's next step, on every consumer, until it is cleared; nothing is restarted. A message that has failed more often
already is dead-lettered at its next step: with --yes, or once you confirmed it. N is 1000 at most, so that a record stays under 24 KiB;
grants add to it, up to 1001 attempts in all. N is compared with the queue's own delivery limit, which the broker reports.`[1:],
		func(ctx context.Context, args []string) error { return a.setLimit(ctx, o, args[0], args[1]) })
	o.roomOptions.addTo(cmd)
	o.addNote(cmd)
	o.addChange(cmd, "set")
	return cmd
}

func (a *app) limitClearCommand() *cobra.Command {
	var o limitOptions
	cmd := cli.New("clear QUEUE", "go back to what the consumers are configured with", "",
		func(ctx context.Context, args []string) error { return a.clearLimit(ctx, o, args[0]) })
	o.storeOptions.addTo(cmd)
	o.addChange(cmd, "cleared")
	return cmd
}

// limitOptions are the flags of the limit verbs.
type limitOptions struct {
	roomOptions
	noteOptions

	dryRun, yes, json bool
}

func (o *limitOptions) addChange(cmd *cobra.Command, done string) {
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only say what would be "+done)
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	cli.JSON(cmd.Flags(), &o.json, "print one JSON object")
}

// override is what the limit verbs print.
type override struct {
	VHost      string `json:"vhost"`
	Queue      string `json:"queue"`
	MaxRetries int    `json:"max_retries"`
	note
	Done *bool `json:"done,omitempty"` // set or cleared; false: --dry-run

	// DeadLetters is how many messages have that many charges already.
	DeadLetters int `json:"dead_letters,omitempty"`
}

func (a *app) getLimit(ctx context.Context, o limitOptions, queue string) error {
	d, err := a.deskFor(ctx, o.Flags, queue)
	if err != nil {
		return err
	}
	defer d.Close()
	set, err := d.Admin().Limit(ctx, d.vhost, d.queue)
	if err != nil {
		return err
	}
	if set == nil {
		return d.noLimit()
	}
	if o.json {
		return jsonl.NewEncoder(a.Out).Encode(override{VHost: d.vhost, Queue: d.queue, MaxRetries: set.MaxRetries, note: noteJSON(set.Note)})
	}
	_, err = fmt.Fprintln(a.Out, limitText(*set))
	return err
}

func (d *desk) noLimit() error {
	return cli.WithCode(fmt.Errorf("no limit is set for queue %q in virtual host %q: its consumers' own are in force", d.queue, d.vhost), cli.ExitNothing)
}

func limitText(o counter.Override) string {
	return term.Plural(o.MaxRetries, "retry") + ", set" + noteJSON(o.Note).String()
}

func (a *app) setLimit(ctx context.Context, o limitOptions, queue, attempts string) error {
	n, err := strconv.Atoi(attempts)
	if err != nil || n < 0 || n > mostRetries {
		return cli.Misusef("N must be a number of retries, 0 to %d as for --max-retries, got %q", mostRetries, attempts)
	}
	why, err := o.note()
	if err != nil {
		return err
	}
	d, err := a.deskFor(ctx, o.Flags, queue)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := a.checkRoom(ctx, o.roomOptions, queue, n); err != nil {
		return err
	}
	to := counter.Override{MaxRetries: n, Note: why}
	out := override{VHost: d.vhost, Queue: d.queue, MaxRetries: n, note: noteJSON(why)}
	return a.changeLimit(ctx, o, change{desk: d, out: out, to: &to, did: "set"})
}

func (a *app) clearLimit(ctx context.Context, o limitOptions, queue string) error {
	d, err := a.deskFor(ctx, o.Flags, queue)
	if err != nil {
		return err
	}
	defer d.Close()
	out := override{VHost: d.vhost, Queue: d.queue}
	switch set, err := d.Admin().Limit(ctx, d.vhost, d.queue); {
	case errors.Is(err, counter.ErrOverride), errors.Is(err, counter.ErrForeign):
	case err != nil:
		return err
	case set == nil:
		return d.noLimit()
	default:
		out.MaxRetries, out.note = set.MaxRetries, noteJSON(set.Note)
	}
	return a.changeLimit(ctx, o, change{desk: d, out: out, did: "cleared"})
}

// change is of a queue's limit.
type change struct {
	*desk
	out override
	to  *counter.Override // nil: cleared
	did string
}

// changeLimit makes a change, after asking if it dead-letters anything.
func (a *app) changeLimit(ctx context.Context, o limitOptions, ch change) error {
	done := !o.dryRun
	ch.out.Done = &done
	var err error
	if ch.out.DeadLetters, err = past(ctx, ch); err != nil {
		return err
	}
	if done {
		if err := a.agree(ctx, o.yes, ch); err != nil {
			return err
		}
		if err := ch.make(ctx); err != nil {
			return err
		}
	}
	if o.json {
		return jsonl.NewEncoder(a.Out).Encode(ch.out)
	}
	_, err = fmt.Fprintln(a.Out, ch.text())
	return err
}

// past counts the messages that the limit dead-letters at their next step.
func past(ctx context.Context, ch change) (n int, err error) {
	for r, err := range ch.Admin().List(ctx, ch.vhost, ch.queue) {
		if err != nil {
			return 0, err
		}
		if limit := r.InForce(ch.to); r.State == counter.StateLive && limit > 0 && r.Counted() >= limit {
			n++
		}
	}
	return n, nil
}

func (a *app) agree(ctx context.Context, yes bool, ch change) error {
	if ch.out.DeadLetters == 0 {
		return nil
	}
	return a.Confirm(ctx, yes, fmt.Sprintf("%s of queue %s failed that often already, and would be dead-lettered next. Go on?",
		term.Plural(ch.out.DeadLetters, "message"), term.Shown(ch.queue)))
}

func (ch change) make(ctx context.Context) error {
	if ch.to != nil {
		return ch.Admin().SetLimit(ctx, ch.vhost, ch.queue, *ch.to)
	}
	_, err := ch.Admin().ClearLimit(ctx, ch.vhost, ch.queue)
	return err
}

func (ch change) text() string {
	text := term.Shown(ch.queue) + ": "
	if !*ch.out.Done {
		text += "would be "
	}
	text += ch.did
	if ch.to != nil {
		text += " to " + term.Plural(ch.to.MaxRetries, "retry")
	}
	if n := ch.out.DeadLetters; n > 0 {
		text += fmt.Sprintf("; dead-letters %s that failed that often already", term.Plural(n, "message"))
	}
	return text
}
