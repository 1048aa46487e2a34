package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
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
		Use: "drop QUEUE [ID…]", Short: "write dead letters to a file, and remove them",
		Example: `  strikes dead drop orders order-17 --to dropped.ndjson
  strikes dead drop orders --older-than 30d --to old.ndjson --why "too late"`,
		Long: `publish --ndjson publishes the file again, with nothing lost: a header value of
a type that JSON does not have is written as {"$amqp":[TYPE,VALUE]}, and publish
restores it. strikes help dead-letters explains IDs and kinds.

--undecodable takes out the first message that cannot be decoded. It takes the
messages before it, and returns them at the end. It reads the message through
the management API, writes the API's JSON to the file, and then removes it.
publish refuses this line, because it has such headers.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1:]) },
	}
	c.addTo(cmd, "dropped")
	cmd.Flags().StringVar(&c.to, "to", "", "append them to `FILE`, which is on disk before they are taken off; required "+
		"without --dry-run")
	cmd.Flags().BoolVar(&c.undecodable, "undecodable", false,
		"drop the first message that cannot be decoded; until then no message behind it can be read")
	return cmd
}

// run takes dead letters off the queue, into the file of --to if it is set.
func (c *deadDrop) run(ctx context.Context, queue string, ids []string) error {
	switch {
	case c.to == "" && !c.dryRun:
		return cli.Misusef("--to FILE is missing; dead letters are written to it before they are dropped")
	case c.to == "-":
		return cli.Misusef("--to is \"-\": strikes cannot know that stdout was saved; give a file (./- for one of that name)")
	case c.undecodable:
		return c.dropUndecodable(ctx, queue, ids)
	}
	f, err := c.chosen(queue, ids)
	if err != nil {
		return err
	}
	q, err := c.open(ctx, queue)
	if err != nil {
		return err
	}
	defer q.close()
	v := verb{"drop", "dropped", "", f, "release", "drops the first message of"}
	if c.to != "" {
		v.where = ", once they are in " + printable.Name(c.to)
	}
	most, ok, err := c.agreed(ctx, q, v)
	if err != nil || !ok {
		return err
	}
	file, err := openKeep(c.to, q.dead.Name)
	if err != nil {
		return err
	}
	begin, end := q.audit(ctx, c.given(), v.verb, filterText(v.filter, c.most))
	q.warnInterrupt(f)
	want := seek(f)
	result, err := q.dead.Drop(ctx, f, most, func(messages []*deadletter.Message) error {
		begin()
		for _, m := range messages {
			want.saw(m)
		}
		return file.keep(messages)
	})
	err = errors.Join(err, file.finish())
	end(result.Done, err)
	var b strings.Builder
	fmt.Fprintf(&b, "%d dropped, %d appended to %s", result.Done, file.n, printable.Name(c.to))
	name(&b, "in the file, but maybe still in the dead-letter queue", len(result.Undecided), result.Undecided)
	fmt.Fprintln(c.Err, b.String())
	q.warnUnrecorded(result.RecordsErr)
	if err == nil && result.Done == 0 {
		return q.nothing(want)
	}
	if err == nil && !reached(c.most, result.Done) {
		err = want.missing("queue " + q.where())
	}
	return q.fail(c.goOn(err, result.Done))
}

// reached reports whether --max ended it, and not that there were no more.
func reached(most, done int) bool { return most > 0 && done >= most }

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
	if bad.Unconverted {
		text += fmt.Sprintf("Neither can the management API read it. Replay or drop those before it (strikes dead replay "+
			"--all %s stops at it), "+
			"and take it out with an AMQP 1.0 receiver (docs/operations.md#a-message-cannot-be-decoded)", q.operand())
	} else {
		text += "Take it out, and leave those before it in the queue: strikes dead drop --undecodable --to FILE " +
			q.operand()
	}
	return undecodable{bad, text}
}

// dropUndecodable takes the first message that cannot be decoded off the queue, into the file of --to.
func (c *deadDrop) dropUndecodable(ctx context.Context, queue string, ids []string) error {
	if f, err := c.filter(&c.deadWhere, queue, ids); err != nil || !f.Everything() || c.all || c.most > 0 || c.dryRun {
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
		printable.Name(c.to))
	if err := c.Confirm(ctx, c.yes, false, question); err != nil {
		return err
	}
	file, err := openKeep(c.to, q.dead.Name)
	if err != nil {
		return err
	}
	begin, end := q.audit(ctx, c.given(), "drop", "--undecodable")
	begin()
	position, err := q.dead.TakeUndecodable(ctx, q.api, file.keepLine)
	err = errors.Join(err, file.finish())
	if err == nil {
		fmt.Fprintf(c.Err, "1 dropped, in %s: it was message %d of queue %s, and cannot be decoded\n", printable.Name(c.to),
			position, q.where())
		end(1, nil)
		return nil
	}
	end(0, err)
	if errors.Is(err, deadletter.ErrAllDecodable) {
		return cli.WithCode(err, cli.ExitNothing)
	}
	return q.fail(err)
}

// keepFile is where dead messages are kept. It is locked, so that no other drop writes to it or removes it.
type keepFile struct {
	*os.File
	n     int
	from  string // which queue
	fresh bool   // it was not there before
}

// openKeep opens a file to append dead messages to it. Only its owner may read it: they may hold anything.
func openKeep(name, from string) (*keepFile, error) {
	_, missing := os.Lstat(name)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, cli.Misusef("nothing is dropped: %w", err)
	}
	k := &keepFile{File: f, from: from, fresh: errors.Is(missing, fs.ErrNotExist)}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch info := k.info(); {
	case errors.Is(err, syscall.EWOULDBLOCK), err == nil && info == nil: // another holds it, or just removed it
		err = cli.Misusef("another command writes to %s; wait until it ends, or give another file", printable.Name(name))
	case err == nil:
		err = errors.Join(k.endLine(info), ops.SyncDir(filepath.Dir(name)))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nothing is dropped: %w", err), f.Close())
	}
	return k, nil
}

// info describes the file; nil if its name leads to another, or to none.
func (k *keepFile) info() fs.FileInfo {
	named, err := os.Stat(k.Name())
	if info, statErr := k.Stat(); err == nil && statErr == nil && os.SameFile(named, info) {
		return info
	}
	return nil
}

// endLine ends a last line that was cut off, so that the next one does not become part of it.
func (k *keepFile) endLine(info fs.FileInfo) error {
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	var last [1]byte
	if _, err := k.ReadAt(last[:], info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err := k.WriteString("\n")
	return err
}

// finish closes the file, and leaves none behind for nothing. It removes the file before that ends the lock.
func (k *keepFile) finish() (err error) {
	if info := k.info(); k.fresh && info != nil && info.Size() == 0 {
		err = os.Remove(k.Name())
	}
	return errors.Join(err, k.Close())
}

// keep returns nil once the messages are on disk.
func (k *keepFile) keep(messages []*deadletter.Message) error {
	if err := ops.Keep(k.File, lineOf, k.from, messages); err != nil {
		return err
	}
	k.n += len(messages)
	return nil
}

// keepLine returns nil once the line is on disk.
func (k *keepFile) keepLine(line []byte) error {
	if err := ops.Append(k.File, append(line, '\n')); err != nil {
		return fmt.Errorf("the message cannot be written to the file: %w", err)
	}
	k.n++
	return nil
}

// lineOf is a message as a line of NDJSON, which publish --ndjson takes.
func lineOf(m amqp.Publishing, key string) ([]byte, error) {
	return json.Marshal(jsonl.MessageOf(m, key))
}
