package dead

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
)

// Drop takes dead letters off the queue, into the file of --to if it is set.
func (c *Command) Drop(ctx context.Context, queue string, ids []string) error {
	to := c.To
	if to == "" {
		return cli.Misusef("--to FILE is missing; dead letters are written to it before they are dropped")
	}
	if to == "-" {
		return cli.Misusef("--to is \"-\": strikes cannot know that stdout was saved; give a file (./- for one of that name)")
	}
	if c.Undecodable {
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
	v := verb{"drop", "dropped", ", once they are in " + term.Shown(to), f, c.Max, "release", "drops the first message of"}
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
	result, err := q.dead.Drop(ctx, f, c.Max, func(messages []*deadletter.Message) error {
		begin()
		for _, m := range messages {
			want.saw(m)
		}
		if err := file.keep(messages); err != nil {
			return err
		}
		return c.reportDropped(messages, c.JSON)
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
	if err == nil && !reached(c.Max, result.Done) {
		err = want.missing(q.dead.Name)
	}
	return q.fail(err)
}

// reached reports whether --max ended it, and not that there were no more.
func reached(most, done int) bool { return most > 0 && done >= most }

func (c *Command) reportDropped(messages []*deadletter.Message, asJSON bool) error {
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
