package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
)

// bodyShown is how much of a body a terminal is shown, in bytes.
const bodyShown = 4 << 10

func (a *app) showDead(ctx context.Context, o deadOptions, queue string, ids []string) error {
	f, err := deadFilter(o, ids)
	switch {
	case err != nil:
		return err
	case o.body && term.IsTerminal(a.Out):
		return cli.Misusef("--body prints what may upset a terminal: give it a file or a pipe")
	}
	g, err := a.graveyardOf(ctx, o, queue)
	if err != nil {
		return err
	}
	defer g.close()
	g.dead.Preview = 1 << 30
	p := term.NewProgress(a.Err)
	g.dead.Progress = showing(p)
	defer p.Finish() // progress may follow the last letter
	find, err := g.search(ctx, o, f)
	if err != nil {
		return err
	}
	unread, err := find.each(ctx, func(l *deadletter.Message) error {
		p.Finish()
		return a.printDeadLetter(l, o, find.found > 0)
	})
	p.Finish()
	if unread != "" {
		fmt.Fprintln(a.Err, term.Printable(unread, ""))
	}
	return err
}

func (a *app) printDeadLetter(l *deadletter.Message, o deadOptions, another bool) error {
	switch {
	case o.body:
		_, err := a.Out.Write(l.Publishing.Body)
		return err
	case o.json:
		row := rowOf(l)
		k := kept{jsonl.MessageOf(l.Publishing), &row}
		return jsonl.NewEncoder(a.Out).Encode(k)
	}
	if another {
		fmt.Fprintln(a.Out)
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
	w := term.NewTable(a.Out)
	id := "none"
	if l.ID != "" {
		id = term.Shown(l.ID)
	}
	term.Field(w, "id", id)
	term.Field(w, "fingerprint", l.Fingerprint)
	term.Field(w, "kind", string(l.Kind()))
	term.Field(w, "reason", term.Printable(l.Reason(), ""))
	term.Field(w, "record", noRecord(l))
	if o := l.Origin; o.Queue != "" {
		term.Field(w, "died in", term.Shown(o.Queue))
		term.Field(w, "the broker says", term.Printable(o.Reason, ""))
		term.Field(w, "died", o.Time.UTC().Format(time.RFC3339))
		if l.Size != sizeUnknown { // the record does not keep it
			term.Field(w, "published to", "exchange "+term.Shown(o.Exchange)+", key "+term.Shown(o.Key))
		}
	}
	if r := l.Record; r != nil {
		term.Field(w, "failures", fmt.Sprint(r.Failures))
		term.Field(w, "crashes", fmt.Sprint(r.Crashes))
		if !r.FirstTime.IsZero() { // else an operator reset it
			term.Field(w, "first charge", r.FirstTime.Format(time.RFC3339))
			term.Field(w, "last charge", r.LastTime.Format(time.RFC3339))
		}
		term.Field(w, "last holder", term.Printable(r.Holder, ""))
	}
	term.Field(w, "replays", fmt.Sprint(l.Replays))
	term.Field(w, "content type", term.Printable(l.Publishing.ContentType, ""))
	if headers, err := json.Marshal(jsonl.Value(l.Publishing.Headers)); err == nil && len(l.Publishing.Headers) > 0 {
		term.Field(w, "headers", term.Printable(string(headers), ""))
	}
	if l.Size != sizeUnknown {
		term.Field(w, "body", term.Plural(l.Size, "byte"))
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
	_, err := fmt.Fprintf(a.Out, "\n%s%s\n", term.Printable(string(body), "\n\t"), more)
	return err
}
