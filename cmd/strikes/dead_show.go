package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/deadletter"
)

// bodyShown is how much of a body a terminal is shown, in bytes.
const bodyShown = 4 << 10

func (a *app) showDead(ctx context.Context, c *cli.Command) error {
	args, err := positional(c, "QUEUE", "ID")
	if err != nil {
		return err
	}
	f, err := deadFilter(c, args[1:])
	switch {
	case err != nil:
		return err
	case c.Bool("body") && isTerminal(a.stdout):
		return usagef("--body prints what may upset a terminal: give it a file or a pipe")
	}
	g, err := a.graveyardOf(ctx, c, args[0])
	if err != nil {
		return err
	}
	defer g.close()
	g.dead.Preview = 1 << 30
	p := newDeadProgress(a.stderr)
	g.dead.Progress = p.tell
	defer p.finish() // progress may follow the last letter
	find, err := g.search(ctx, c, f)
	if err != nil {
		return err
	}
	unread, err := find.each(ctx, func(l *deadletter.Message) error {
		p.finish()
		return a.printDeadLetter(l, c, find.found > 0)
	})
	p.finish()
	if unread != "" {
		fmt.Fprintln(a.stderr, printable(unread, ""))
	}
	return err
}

func (a *app) printDeadLetter(l *deadletter.Message, c *cli.Command, another bool) error {
	switch {
	case c.Bool("body"):
		_, err := a.stdout.Write(l.Publishing.Body)
		return err
	case c.Bool("json"):
		k, row := keptOf(l.Publishing), rowOf(l)
		k.Dead = &row
		return ndjson(a.stdout).Encode(k)
	}
	if another {
		fmt.Fprintln(a.stdout)
	}
	return a.describeDead(l)
}

// noRecord says why the reason is the broker's and not a handler's; empty if there is a record.
func noRecord(l *deadletter.Message) string {
	switch {
	case l.Record != nil:
		return ""
	case l.Shared:
		return "none: the record is that of another message with this id, which died too"
	case l.ID == "" && l.Origin.Reason == "rejected":
		return "none: a message without an id is not counted; its consumer logged the reason, with the fingerprint"
	}
	return ""
}

// describeDead prints everything for people: nothing of it reaches a terminal as it is.
func (a *app) describeDead(l *deadletter.Message) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	id := "none"
	if l.ID != "" {
		id = shown(l.ID)
	}
	line(w, "id", id)
	line(w, "fingerprint", l.Fingerprint)
	line(w, "kind", string(l.Kind()))
	line(w, "reason", printable(l.Reason(), ""))
	line(w, "record", noRecord(l))
	if o := l.Origin; o.Queue != "" {
		line(w, "died in", shown(o.Queue))
		line(w, "the broker says", printable(o.Reason, ""))
		line(w, "died", o.Time.UTC().Format(time.RFC3339))
		if l.Size != sizeUnknown { // the record does not keep it
			line(w, "published to", "exchange "+shown(o.Exchange)+", key "+shown(o.Key))
		}
	}
	if r := l.Record; r != nil {
		line(w, "failures", fmt.Sprint(r.Failures))
		line(w, "crashes", fmt.Sprint(r.Crashes))
		if !r.FirstTime.IsZero() { // else an operator reset it
			line(w, "first charge", r.FirstTime.Format(time.RFC3339))
			line(w, "last charge", r.LastTime.Format(time.RFC3339))
		}
		line(w, "last holder", printable(r.Holder, ""))
	}
	line(w, "replays", fmt.Sprint(l.Replays))
	line(w, "content type", printable(l.Publishing.ContentType, ""))
	if headers, err := json.Marshal(jsonValue(l.Publishing.Headers)); err == nil && len(l.Publishing.Headers) > 0 {
		line(w, "headers", printable(string(headers), ""))
	}
	if l.Size != sizeUnknown {
		line(w, "body", plural(l.Size, "byte"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	body, more := l.Publishing.Body, ""
	if len(body) > bodyShown {
		body, more = body[:bodyShown], "… (all of it: --body)"
	}
	if len(body) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(a.stdout, "\n%s%s\n", printable(string(body), "\n\t"), more)
	return err
}
