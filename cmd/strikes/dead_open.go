package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/ops"
)

// dlq is a queue's dead-letter queue and the known facts about its messages.
type dlq struct {
	dead   deadletter.Queue
	api    deadletter.Management // where it was asked, or would be
	queue  string                // whose dead letters they are
	named  bool                  // dead.Name is of --dead-letter-queue
	broker *connect.Broker
	stderr io.Writer
	store  *counter.Counter // nil: not to be asked
	ready  int              // messages that the broker counted when the queue was opened; negative: not known
}

// open opens the store, and finds the actions that are safe on the dead-letter queue. The caller closes it.
func (c *deadWhere) open(ctx context.Context, queue string) (*dlq, error) {
	q, err := c.openStore(ctx, queue)
	if err != nil {
		return nil, err
	}
	if err := q.judge(ctx, c.force); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

// openStore is open without asking the broker.
func (c *deadWhere) openStore(ctx context.Context, queue string) (*dlq, error) {
	b, err := c.Broker()
	if err != nil {
		return nil, err
	}
	show := term.Progress(c.Err)
	q := &dlq{queue: queue, named: c.deadLetterQueue != "", broker: b, stderr: c.Err, ready: -1,
		dead: deadletter.Queue{Name: cmp.Or(c.deadLetterQueue, queue+".dlq"), Dial: b.Dial,
			Progress: func(at deadletter.Progress) { show(at.Doing, at.Done, at.Of) }}}
	if err := broker.CheckName(q.dead.Name); err != nil && q.named {
		return nil, cli.Misusef("--dead-letter-queue: %w", err)
	}
	if !c.noStore {
		if q.store, err = c.Store(ctx); err != nil {
			if c.Cmd.Flags().Lookup("no-store") != nil { // a verb of lane has no such flag
				err = fmt.Errorf("%w (--no-store works without it)", err)
			}
			return nil, err
		}
		q.dead.Records = q.store.Admin()
	}
	return q, nil
}

// records are the store's records of the dead letters.
func (q *dlq) records() *ops.Queue {
	return &ops.Queue{Store: q.store.Admin(), VHost: q.broker.VHost, Name: q.queue}
}

func (q *dlq) close() {
	if q.store != nil {
		_ = q.store.Close()
	}
}

// judge finds the dead-letter queue, unless it is named, and its kind. It asks the management API, given or at its
// usual address: the API reports more than AMQP, and needs no permission on the queue.
func (q *dlq) judge(ctx context.Context, force bool) error {
	return q.broker.With(ctx, func(conn *amqp.Connection) error {
		need, tried := q.broker.Management(ctx, conn, inspect.Need{Queue: q.queue})
		at, err := q.find(ctx, conn, need)
		if err == nil && at.Away {
			err = fmt.Errorf("dead-letter queue %s: %w", q.where(), broker.ErrAway)
		}
		if err != nil {
			return err
		}
		if q.dead.Partitioned, q.dead.Partitions, err = broker.FindPartitions(ctx, conn, q.queue); err != nil {
			return err
		}
		notePartition(q.stderr, q.queue, q.dead.Partitioned)
		waiting := fmt.Sprintf("waiting for the management API to know queue %s, for 15 s at most\n", q.where())
		q.api = deadletter.Management{URL: need.Management, Client: need.HTTPClient}
		said := make(chan struct{})
		slow := time.AfterFunc(2*time.Second, func() { defer close(said); fmt.Fprint(q.stderr, waiting) })
		opened, err := deadletter.Open(ctx, q.dead, q.api)
		if !slow.Stop() {
			<-said // stderr takes one line at a time
		}
		switch {
		case errors.Is(err, deadletter.ErrQueueNotFound) && at.Assumed != nil:
			return q.notFound(ctx, conn, at, err)
		case errors.Is(err, deadletter.ErrQueueNotFound) && q.named:
			return fmt.Errorf("%w; correct --dead-letter-queue, or leave it out: then the queue is found by the route of %s",
				err, printable.Name(q.queue))
		case err != nil:
			return err
		}
		if at.Assumed != nil {
			fmt.Fprintln(q.stderr, printable.Text(at.Guess(q.queue), ""))
		}
		q.dead = *opened
		if h := &q.dead.Handling; !h.Hold && tried != nil {
			h.Why += "; the management API was tried at its usual address (--management-url names another): " + tried.Error()
		}
		if h := &q.dead.Handling; force {
			h.Take, h.Hold = true, !lowLimit(*h)
		}
		found, now, _ := broker.FindQueue(ctx, conn, q.dead.Name)
		if found == broker.Yes && (now.Messages > 0 || now.Consumers == 0) { // else a consumer may hold all of them
			q.ready = now.Messages
		}
		return ctx.Err()
	})
}

// lowLimit reports whether the queue is never read, not even with --force.
func lowLimit(h deadletter.Handling) bool { return h.Limit > 0 && h.Limit < broker.EnoughReturns }

// notePartition says that a queue is a partition of another one, unless that is empty.
func notePartition(stderr io.Writer, queue, of string) {
	if of != "" && of != queue {
		fmt.Fprintf(stderr, "queue %s is one partition of queue %s; give %[2]s for all of them\n", printable.Name(queue),
			printable.Name(of))
	}
}

// find finds the dead-letter queue's name, unless it is named, and checks it.
func (q *dlq) find(ctx context.Context, conn *amqp.Connection, need inspect.Need) (ops.DeadLetterQueue, error) {
	at := ops.DeadLetterQueue{Name: q.dead.Name}
	if !q.named {
		var err error
		if at, err = ops.FindDeadLetterQueue(ctx, conn, need); err != nil {
			return at, ambiguous(err)
		}
		q.dead.Name = at.Name
	}
	if err := broker.CheckName(q.dead.Name); err != nil {
		return at, cli.Misusef("the dead-letter queue (--dead-letter-queue names it): %w", err)
	}
	return at, nil
}

// notFound says why a dead-letter queue whose name was assumed does not exist.
func (q *dlq) notFound(ctx context.Context, conn *amqp.Connection, at ops.DeadLetterQueue, err error) error {
	if source, is := strings.CutSuffix(q.queue, ".dlq"); is {
		return fmt.Errorf("%w; %s is a dead-letter queue: give its source queue, as in: strikes dead list %s", err,
			printable.Name(q.queue), shell.Operands(source))
	}
	if exists, _, _ := broker.FindQueue(ctx, conn, q.queue); exists == broker.No {
		return q.broker.NoQueue(q.queue, broker.ErrNotFound)
	}
	return fmt.Errorf("%w; %s; for more, run: strikes doctor %s", err, at.Guess(q.queue), shell.Operands(q.queue))
}

// where names the dead-letter queue for a line of text.
func (q *dlq) where() string { return printable.Name(q.dead.Name) }

// operand names the queue for a command line, and the dead-letter queue if that was given.
func (q *dlq) operand() string {
	if q.named {
		return "--dead-letter-queue " + shell.Word(q.dead.Name) + " " + shell.Operands(q.queue)
	}
	return shell.Operands(q.queue)
}

// fail gives an error of package deadletter its exit code, and names the way out.
func (q *dlq) fail(err error) error {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	switch err = q.wayOut(err); {
	case is(deadletter.ErrUnsafe):
		if !is(deadletter.ErrWorn) {
			err = fmt.Errorf("%w (--force does it anyway)", err)
		}
		if q.dead.Handling.Denied {
			return cli.WithCode(err, cli.ExitDenied)
		}
		return cli.Misuse(err)
	case err == nil, is(context.Canceled):
		return err
	case is(deadletter.ErrBusy, deadletter.ErrQueueNotFound, deadletter.ErrNoOrigin):
		return cli.Misuse(err)
	case is(deadletter.ErrInterrupted, deadletter.ErrUnanswered, context.DeadlineExceeded):
		return cli.WithCode(err, cli.ExitUnreachable)
	}
	return err
}

// sameCommand continues a change that was interrupted.
const sameCommand = "the same command"

// goOn says which command continues a change that was interrupted after so many dead letters, unless they were all.
func (c *deadChange) goOn(err error, done int) error {
	switch {
	case c.most == 0:
		return goOn(err, sameCommand)
	case c.most > done:
		return goOn(err, fmt.Sprintf("%s with --max %d", sameCommand, c.most-done))
	}
	return err
}

// goOn says which command continues a change, if it was interrupted.
func goOn(err error, command string) error {
	if cli.Interrupted(err) {
		return cli.WithCode(errors.New("interrupted; to go on, run "+command), cli.ExitInterrupted)
	}
	return err
}

// warnInterrupt prints the effect of an interruption of a replay or drop, if it has one.
func (q *dlq) warnInterrupt(f deadletter.Filter) {
	if h := q.dead.Handling; h.Take && h.Why != "" && (h.Hold || f.Everything()) {
		fmt.Fprintf(q.stderr, "do not interrupt this often: queue %s: %s\n", q.where(), printable.Text(h.Why, ""))
	}
}

// warnUnrecorded reports that the store may not have recorded all that was taken off; why is nil if it has.
func (q *dlq) warnUnrecorded(why error) {
	if why != nil {
		fmt.Fprintf(q.stderr, "the store may not have recorded every message taken off queue %s, so strikes status may "+
			"report some as missing: %s\n",
			q.where(), printable.Text(why.Error(), ""))
	}
}

// nothing returns the error, with its exit code, for a search that found no dead letter.
func (q *dlq) nothing(want *wanted) error {
	others := want.Filter
	others.Group, others.Source = "", ""
	if want.Group != "" && others.Everything() && q.ready != 0 {
		text := "no dead letter in queue %s is of the group %s; strikes dead list --groups %s shows the groups"
		return cli.WithCode(fmt.Errorf(text, q.where(), want.Group, q.operand()), cli.ExitNothing)
	}
	text := fmt.Sprintf("no dead letter in queue %s matches%s; strikes dead list --read %s lists all of them", q.where(),
		want.names(), q.operand())
	if want.Everything() || q.ready == 0 {
		text = fmt.Sprintf("dead-letter queue %s is empty", q.where())
	}
	return cli.WithCode(errors.New(text), cli.ExitNothing)
}

// ambiguous says what to do if dead letters land in several queues.
func ambiguous(err error) error {
	if errors.As(err, new(*ops.AmbiguousError)) {
		return cli.Misusef("%w; choose one with --dead-letter-queue", err)
	}
	return err
}
