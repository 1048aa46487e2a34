package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

func (a *app) limitCommand() *urfave.Command {
	return &urfave.Command{
		Name:   "limit",
		Usage:  "show, set and clear how often the messages of a queue are retried",
		Action: a.do(group),
		Commands: []*urfave.Command{
			{
				Name: "get", Usage: "show the limit that was set in place of the consumers' own (exit 3: none)",
				ArgsUsage: "QUEUE",
				Flags:     storeFlags(jsonFlag("print one JSON object")),
				Action:    a.do(a.getLimit),
			},
			{
				Name: "set", Usage: "have messages retried N times after their first failure, whatever the consumers are configured with",
				ArgsUsage: "QUEUE N",
				Description: "In force at each message's next step, on every consumer, until it is cleared; nothing is restarted. A message\n" +
					"that has failed more often already is dead-lettered at its next step: with --yes, or once you said so. N is 1000\n" +
					"at most, so that a record stays under 24 KiB; grants add to it, up to 1001 attempts in all. N is compared with the\n" +
					"queue's own delivery limit, which the broker reports.",
				Flags: storeFlags(noteFlags(roomFlags(
					&urfave.BoolFlag{Name: "dry-run", Usage: "only say what would be set"},
					&urfave.BoolFlag{Name: "yes", Usage: "do not ask"},
					jsonFlag("print one JSON object"),
				)...)...),
				Action: a.do(a.setLimit),
			},
			{
				Name: "clear", Usage: "go back to what the consumers are configured with",
				ArgsUsage: "QUEUE",
				Flags: storeFlags(
					&urfave.BoolFlag{Name: "dry-run", Usage: "only say what would be cleared"},
					&urfave.BoolFlag{Name: "yes", Usage: "do not ask"},
					jsonFlag("print one JSON object"),
				),
				Action: a.do(a.clearLimit),
			},
		},
	}
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

func (a *app) getLimit(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE")
	if err != nil {
		return err
	}
	d, err := a.deskFor(ctx, c, args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	o, err := d.Admin().Limit(ctx, d.vhost, d.queue)
	if err != nil {
		return err
	}
	if o == nil {
		return d.noLimit()
	}
	if c.Bool("json") {
		return jsonl.NewEncoder(a.Out).Encode(override{VHost: d.vhost, Queue: d.queue, MaxRetries: o.MaxRetries, note: noteJSON(o.Note)})
	}
	_, err = fmt.Fprintln(a.Out, limitText(*o))
	return err
}

func (d *desk) noLimit() error {
	return cli.WithCode(fmt.Errorf("no limit is set for queue %q in virtual host %q: its consumers' own are in force", d.queue, d.vhost), cli.ExitNothing)
}

func limitText(o counter.Override) string {
	return term.Plural(o.MaxRetries, "retry") + ", set" + noteJSON(o.Note).String()
}

func (a *app) setLimit(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE", "N")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 0 || n > mostRetries {
		return cli.Misusef("%s: N is %q: it is a number of retries, 0 to %d as for --max-retries", c.FullName(), args[1], mostRetries)
	}
	why, err := noteOf(c)
	if err != nil {
		return err
	}
	d, err := a.deskFor(ctx, c, args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	if err := a.checkRoom(ctx, c, args[0], n); err != nil {
		return err
	}
	o := counter.Override{MaxRetries: n, Note: why}
	out := override{VHost: d.vhost, Queue: d.queue, MaxRetries: n, note: noteJSON(why)}
	return a.changeLimit(ctx, c, change{desk: d, out: out, to: &o, did: "set"})
}

func (a *app) clearLimit(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE")
	if err != nil {
		return err
	}
	d, err := a.deskFor(ctx, c, args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	out := override{VHost: d.vhost, Queue: d.queue}
	switch o, err := d.Admin().Limit(ctx, d.vhost, d.queue); {
	case errors.Is(err, counter.ErrOverride), errors.Is(err, counter.ErrForeign):
	case err != nil:
		return err
	case o == nil:
		return d.noLimit()
	default:
		out.MaxRetries, out.note = o.MaxRetries, noteJSON(o.Note)
	}
	return a.changeLimit(ctx, c, change{desk: d, out: out, did: "cleared"})
}

// change is of a queue's limit.
type change struct {
	*desk
	out override
	to  *counter.Override // nil: cleared
	did string
}

// changeLimit makes a change, after asking if it dead-letters anything.
func (a *app) changeLimit(ctx context.Context, c *urfave.Command, ch change) error {
	done := !c.Bool("dry-run")
	ch.out.Done = &done
	var err error
	if ch.out.DeadLetters, err = past(ctx, ch); err != nil {
		return err
	}
	if done {
		if err := a.agree(ctx, c.Bool("yes"), ch); err != nil {
			return err
		}
		if err := ch.make(ctx); err != nil {
			return err
		}
	}
	if c.Bool("json") {
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
