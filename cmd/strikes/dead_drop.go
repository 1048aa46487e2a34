package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
)

// deadDrop is one run of dead drop.
type deadDrop struct {
	deadChange

	to          string
	undecodable bool
}

func (a *app) deadDropCommand() *cobra.Command {
	c := deadDrop{deadChange: deadChange{deadWhere: deadWhere{Streams: a.Streams}}}
	cmd := &cobra.Command{
		Use: "drop QUEUE [ID…]", Short: "write dead letters to a file, and remove them", Args: cobra.MinimumNArgs(1),
		Example: `  strikes dead drop orders order-17 --to dropped.ndjson
  strikes dead drop orders --older-than 30d --to old.ndjson --why "too late"`,
		Long: `publish --ndjson publishes the file again, with nothing lost: a header value of
a type that JSON does not have is written as {"$amqp":[TYPE,VALUE]}, and publish
restores it. strikes help dead-letters explains IDs and kinds.

--undecodable takes out the first message that cannot be decoded. It holds the
messages before it meanwhile, reads the message through the management API,
writes the API's JSON to the file, and then removes it. publish does not take
this line: it refuses such headers.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1:]) },
	}
	c.addTo(cmd, "dropped")
	cmd.Flags().StringVar(&c.to, "to", "", "append them to `FILE`, which is on disk before they are taken off; required")
	cmd.Flags().BoolVar(&c.undecodable, "undecodable", false,
		"the first message that cannot be decoded, which keeps the others from being read; those before it stay")
	return cmd
}

// run takes dead letters off the queue, into the file of --to if it is set.
func (c *deadDrop) run(ctx context.Context, queue string, ids []string) error {
	to := c.to
	if to == "" {
		return cli.Misusef("--to FILE is missing; dead letters are written to it before they are dropped")
	}
	if to == "-" {
		return cli.Misusef("--to is \"-\": strikes cannot know that stdout was saved; give a file (./- for one of that name)")
	}
	if c.undecodable {
		return c.dropUndecodable(ctx, queue, ids)
	}
	f, err := c.chosen(ids)
	if err != nil {
		return err
	}
	q, err := c.open(ctx, queue)
	if err != nil {
		return err
	}
	defer q.close()
	v := verb{"drop", "dropped", ", once they are in " + term.Shown(to), f, c.most, "release",
		"drops the first message of"}
	ok, err := c.agreed(ctx, q, v)
	if err != nil || !ok {
		return err
	}
	file, err := openKeep(to, q.dead.Name)
	if err != nil {
		return err
	}
	begin, end := c.audit(ctx, q, v)
	p := term.NewProgress(c.Err)
	q.dead.Progress = showing(p)
	q.warnInterrupt(c.Err)
	want := seek(f)
	result, err := q.dead.Drop(ctx, f, c.most, func(messages []*deadletter.Message) error {
		begin()
		for _, m := range messages {
			want.saw(m)
		}
		if err := file.keep(messages); err != nil {
			return err
		}
		return c.reportDropped(messages, c.json)
	})
	p.Finish()
	err = errors.Join(err, file.finish())
	end(result.Done, err)
	var b strings.Builder
	fmt.Fprintf(&b, "%d dropped, %d in %s", result.Done, file.n, term.Shown(to))
	name(&b, "in the file, but maybe still in the dead-letter queue", len(result.Undecided), result.Undecided)
	fmt.Fprintln(c.Err, b.String())
	q.warnUnrecorded(c.Err, result.RecordsErr)
	if err == nil && result.Done == 0 {
		return q.nothing(want)
	}
	if err == nil && !reached(c.most, result.Done) {
		err = want.missing(q.dead.Name)
	}
	return q.fail(err)
}

// reached reports whether --max ended it, and not that there were no more.
func reached(most, done int) bool { return most > 0 && done >= most }

func (c *deadDrop) reportDropped(messages []*deadletter.Message, asJSON bool) error {
	if !asJSON {
		return nil
	}
	out := jsonl.NewEncoder(c.Out)
	for _, m := range messages {
		if err := out.Encode(map[string]any{"id": m.ID, "fingerprint": m.Fingerprint, "written": true}); err != nil {
			return err
		}
	}
	return nil
}
