package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/change"
	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/dead"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/records"
)

func (a *app) deadWriteOffCommand() *cobra.Command {
	var o statusOptions
	var opts change.Options
	var note change.Note
	cmd := cli.New("write-off QUEUE", "accept that dead letters are unaccounted for, so that nothing reports them as missing", `
Run it once you know what became of them, or that this cannot be known: strikes doctor QUEUE finds most causes. No message and no record
changes: dead list --records shows the record of each until it expires. The audit log keeps the number, the actor and the reason. If no
dead letter is unaccounted for, the exit code is 3.

Dead letters that come back later, and are replayed or dropped, no longer count as written off. Give the management API if you can:
without it, dead letters that others consumed are unaccounted for too. If these are written off and the API is given later, they are
subtracted twice, which hides as many losses. The API does not say which were consumed before the write-off.`[1:],
		func(ctx context.Context, args []string) error { return a.writeOff(ctx, o, opts, note, args[0]) })
	o.AddRecords(cmd)
	o.AddManagement(cmd, "for what AMQP cannot report")
	dead.AddQueue(cmd.Flags(), &o.deadLetterQueue)
	note.AddNote(cmd)
	opts.AddChange(cmd, "written off", "")
	return cmd
}

func (a *app) writeOff(ctx context.Context, o statusOptions, options change.Options, note change.Note, queue string) error {
	why, err := note.Note()
	if err != nil {
		return err
	}
	l, err := newCollector(o, queue)
	if err != nil {
		return err
	}
	store, err := o.Store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	l.Store = store.Admin()
	l.NoReasons = true
	defer l.Close()
	s, err := l.Collect(ctx)
	if err != nil {
		return err
	}
	q := &records.Queue{Store: l.Store, VHost: l.VHost, Name: queue, Warn: func(err error) {
		fmt.Fprintf(a.Err, "strikes: %s\n", term.Printable(err.Error(), ""))
	}}
	plan, err := q.PlanWriteOff(s.Dead.Missing, s.Dead.WrittenOff, why)
	if err != nil {
		return cli.WithCode(err, cli.ExitNothing)
	}
	question := "Write off? " + render.WriteOff(plan)
	err = change.Change[records.WriteOff]{Steps: []records.WriteOff{plan}, Question: question, Do: q.WriteOff, Text: render.WriteOff}.Make(ctx, a.Streams, options)
	if errors.Is(err, counter.ErrWriteOff) {
		return cli.Misusef("%w; run it again", err)
	}
	return err
}
