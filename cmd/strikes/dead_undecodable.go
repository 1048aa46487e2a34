package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/shell"
)

// undecodable says, in the words of the command, which message cannot be decoded and how to take it out.
type undecodable struct {
	*deadletter.UndecodableError
	text string
}

func (e undecodable) Error() string { return e.text }
func (e undecodable) Unwrap() error { return e.UndecodableError }

// wayOut returns err. For an undecodable message it names the command that takes the message out.
func (q *dlq) wayOut(err error) error {
	var bad *deadletter.UndecodableError
	if !errors.As(err, &bad) || errors.As(err, new(undecodable)) {
		return err
	}
	behind := ""
	if bad.AtLeast {
		behind = ", or one behind it,"
	}
	text := fmt.Sprintf("message %d of queue %s%s cannot be decoded, and no message behind it can be read: %s. ",
		bad.Position, q.where(), behind, bad.Wrong)
	source := shell.Operands(q.queue)
	if bad.Unconverted {
		text += fmt.Sprintf("Neither can the management API read it. Replay or drop those before it (strikes dead replay "+
			"%s --all stops at it), "+
			"and take it out with an AMQP 1.0 receiver (docs/operations.md#a-message-cannot-be-decoded)", source)
	} else {
		text += fmt.Sprintf("Take it out, and leave those before it in the queue: strikes dead drop %s --undecodable "+
			"--to FILE", source)
	}
	return undecodable{bad, text}
}

// dropUndecodable takes the first message that cannot be decoded off the queue, into the file of --to.
func (c *deadDrop) dropUndecodable(ctx context.Context, queue string, ids []string) error {
	if f, err := c.filter(&c.deadWhere, ids); err != nil || !f.Everything() || c.all || c.most > 0 || c.dryRun {
		return cli.Misusef("--undecodable says which message is dropped; leave out ids, filters, --all, --max and --dry-run")
	}
	q, err := c.open(ctx, queue)
	if err != nil {
		return err
	}
	defer q.close()
	if q.api.URL == "" {
		return cli.Misusef("--undecodable needs the management API, which can read the message: give --management-url")
	}
	question := fmt.Sprintf("Drop the first message of queue %s that cannot be decoded, once it is in %s?", q.where(),
		term.Shown(c.to))
	if err := c.Confirm(ctx, c.yes, false, question); err != nil {
		return err
	}
	file, err := openKeep(c.to, q.dead.Name)
	if err != nil {
		return err
	}
	ended := q.auditAs(ctx, c.Err, c.Given(), "drop", "--undecodable")
	p := term.NewProgress(c.Err)
	q.dead.Progress = showing(p)
	position, err := q.dead.TakeUndecodable(ctx, q.api, file.keepLine)
	p.Finish()
	err = errors.Join(err, file.finish())
	if err == nil {
		fmt.Fprintf(c.Err, "1 dropped, in %s: it was message %d of queue %s, and cannot be decoded\n", term.Shown(c.to),
			position, q.where())
		ended(1, nil)
		return nil
	}
	ended(0, err)
	if errors.Is(err, deadletter.ErrAllDecodable) {
		return cli.WithCode(err, cli.ExitNothing)
	}
	return q.fail(err)
}
