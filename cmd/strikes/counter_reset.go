package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

func (a *app) resetCommand() *urfave.Command {
	return &urfave.Command{
		Name: "reset", Usage: "forget what was counted of messages, so that their budget is full again",
		ArgsUsage: "QUEUE ID…",
		Description: "An ID that begins with - stands behind --. A message that is in the dead-letter queue stays there. Who, when and\n" +
			"why are kept with the record.",
		Flags: storeFlags(noteFlags(
			&urfave.BoolFlag{Name: "dry-run", Usage: "only say what would be forgotten"},
			&urfave.BoolFlag{Name: "yes", Usage: "do not ask; needed where there is no terminal to ask at"},
			jsonFlag("print one JSON object an id"),
		)...),
		Action: a.do(a.resetCounters),
	}
}

// counted is what reset knows of one id.
type counted struct {
	ID      string `json:"id"`
	Records int    `json:"records"`
	Charges int    `json:"charges"`
	Dead    int    `json:"dead,omitempty"` // records of dead letters that were not replayed or dropped
	Reset   bool   `json:"reset"`          // done

	lives []counter.Message
}

func (a *app) resetCounters(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE", "ID…")
	if err != nil {
		return err
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
	found, err := d.lookUp(ctx, args[1:])
	if err != nil {
		return err
	}
	unknown := uncounted(args[1:], found)
	if len(found) == 0 {
		return d.nothing("nothing is counted of %s", unknown)
	}
	if unknown != "" {
		fmt.Fprintf(a.Err, "strikes: nothing is counted of %s\n", unknown)
	}
	warnOfDead(a.Err, found)
	if !c.Bool("dry-run") {
		question := fmt.Sprintf("Forget what is counted of %s of queue %s?", term.Plural(len(found), "message"), term.Shown(d.queue))
		if err := a.Confirm(ctx, c.Bool("yes"), question); err != nil {
			return err
		}
		for i := range found {
			if err := d.reset(ctx, &found[i], why); err != nil {
				return errors.Join(a.printCounted(found[:i], c.Bool("json")), err)
			}
		}
	}
	return a.printCounted(found, c.Bool("json"))
}

// warnOfDead says what is lost with the record of a dead letter.
func warnOfDead(stderr io.Writer, found []counted) {
	var ids []string
	for _, n := range found {
		if n.Dead > 0 {
			ids = append(ids, term.Shown(n.ID))
		}
	}
	if len(ids) > 0 {
		fmt.Fprintf(stderr, "strikes: dead-lettered: %s; reset forgets why it died and brings nothing back; `strikes dead replay` gives it new attempts\n", fewOf(ids))
	}
}

// fewOf lists a few.
func fewOf(ids []string) string {
	const few = 5
	if len(ids) > few {
		return strings.Join(ids[:few], " ") + " …"
	}
	return strings.Join(ids, " ")
}

// reset makes the records of all lives clean. One that expired meanwhile is.
func (d *desk) reset(ctx context.Context, n *counted, why counter.Note) error {
	for _, m := range n.lives {
		if err := d.Admin().Reset(ctx, m, why); err != nil && !errors.Is(err, counter.ErrNoRecord) {
			return err
		}
	}
	n.Reset = true
	return nil
}

// lookUp finds those of ids of which something is counted.
func (d *desk) lookUp(ctx context.Context, ids []string) (found []counted, err error) {
	for _, id := range ids {
		of, err := d.records(ctx, id)
		if err != nil {
			return nil, err
		}
		n := counted{ID: id}
		for _, r := range of {
			if clean(r) {
				continue
			}
			n.Records++
			n.Charges += r.Counted()
			if r.State == counter.StateDeadLetter && r.Removed.IsZero() {
				n.Dead++
			}
			n.lives = append(n.lives, r.Message)
		}
		if n.Records > 0 {
			found = append(found, n)
		}
	}
	return found, nil
}

// uncounted names those of ids of which nothing was found, the first of them; empty if there are none.
func uncounted(ids []string, found []counted) string {
	missing := &sought{ids: ids, found: map[string]bool{}}
	for _, n := range found {
		missing.found[n.ID] = true
	}
	return strings.TrimPrefix(missing.names(), ": ")
}

// clean reports whether there is nothing in a record that a reset would forget.
func clean(r counter.Record) bool {
	return r.Counted() == 0 && r.State == counter.StateLive && r.OpenToken == "" && !r.Suspect && r.Granted.Attempts == 0
}

func (a *app) printCounted(all []counted, asJSON bool) error {
	for _, n := range all {
		if asJSON {
			if err := jsonl.NewEncoder(a.Out).Encode(n); err != nil {
				return err
			}
			continue
		}
		what := "would be forgotten"
		if n.Reset {
			what = "forgotten"
		}
		if _, err := fmt.Fprintf(a.Out, "%s: %s (charges %d, lives %d)\n", term.Shown(n.ID), what, n.Charges, n.Records); err != nil {
			return err
		}
	}
	return nil
}
