package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/internal/status"
)

// graveyard is a queue's dead-letter queue and what is known of its messages.
type graveyard struct {
	dead   deadletter.Queue
	queue  string // whose dead letters they are
	broker *connect.Broker
	store  *counter.Counter // nil: not to be asked
	unseen int              // messages in the queue that were not looked at
	held   error            // ErrBusy: others hold messages that were not counted
	denied bool             // what may be done cannot be told for lack of permissions
}

// graveyardOf finds out what may be done with the dead-letter queue, and opens the store. It is closed by the caller.
func (a *app) graveyardOf(ctx context.Context, o deadOptions, queue string) (*graveyard, error) {
	b, err := o.Broker()
	if err != nil {
		return nil, err
	}
	if vhost := o.VHost; vhost != "" && vhost != b.VHost {
		return nil, cli.Misusef("--vhost is %q, but the broker's URL leads to virtual host %q", vhost, b.VHost)
	}
	api, err := o.Management()
	if err != nil {
		return nil, err
	}
	named := o.deadLetterQueue
	g := &graveyard{queue: queue, broker: b, dead: deadletter.Queue{Name: cmp.Or(named, queue+".dlq"), Dial: b.Dial}}
	if err := queueinfo.CheckName(g.dead.Name); err != nil && named != "" {
		return nil, cli.Misusef("--dead-letter-queue: %w", err)
	}
	if !o.noStore {
		if g.store, err = o.Store(ctx); err != nil {
			return nil, fmt.Errorf("%w (--no-store goes without it)", err)
		}
		g.dead.Records = g.store.Admin()
	}
	if o.records {
		return g, nil
	}
	need := inspect.Need{Queue: queue, Management: api}
	if err := g.judge(ctx, a.Err, need, named != "", o.force); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *graveyard) close() {
	if g.store != nil {
		_ = g.store.Close()
	}
}

// judge finds the dead-letter queue, unless it is named, and its kind. It asks the management API, given or at its usual place:
// that tells more than AMQP, and needs no permission on the queue.
func (g *graveyard) judge(ctx context.Context, stderr io.Writer, need inspect.Need, named, force bool) error {
	return g.broker.With(ctx, func(conn *amqp.Connection) error {
		slow := time.AfterFunc(2*time.Second, func() {
			fmt.Fprintf(stderr, "waiting for the management API to know queue %s, for 15 s at most\n", g.where())
		})
		defer slow.Stop()
		var tried string
		if need.Management == "" {
			var err error
			if need, err = g.broker.Management(ctx, conn, need); err != nil {
				tried = "; the management API was tried at its usual place (--management-url names another): " + err.Error()
			}
		}
		at := status.DeadLetterQueue{Name: g.dead.Name}
		if !named {
			var err error
			if at, err = status.FindDeadLetterQueue(ctx, conn, need); err != nil {
				return ambiguous(err)
			}
			g.dead.Name = at.Name
		}
		if err := queueinfo.CheckName(g.dead.Name); err != nil {
			return cli.Misusef("the dead-letter queue (--dead-letter-queue names it): %w", err)
		}
		nature, err := deadletter.Describe(ctx, conn, g.dead.Name, need.Management, need.HTTPClient)
		if errors.Is(err, deadletter.ErrQueueNotFound) && at.Assumed != nil {
			return fmt.Errorf("%w; %s", err, render.AssumedQueue(g.queue, at.Name, at.Assumed))
		}
		if err != nil {
			return err
		}
		if at.Assumed != nil {
			fmt.Fprintln(stderr, term.Printable(render.AssumedQueue(g.queue, at.Name, at.Assumed), ""))
		}
		g.handle(nature, tried, force)
		return ctx.Err()
	})
}

// handle decides what may be done with the queue; tried says which management API did not answer.
func (g *graveyard) handle(n deadletter.Nature, tried string, force bool) {
	h := n.Handling()
	if !h.Hold {
		h.Why += tried
		if n.Unread != "" {
			h.Why += " (" + n.Unread + ")"
		}
	}
	if force {
		h.Take, h.Hold = true, true
	}
	g.dead.Handling, g.denied = h, n.Denied
}

// where names the dead-letter queue for a line of text.
func (g *graveyard) where() string { return term.Shown(g.dead.Name) }

// fail gives an error of package deadletter its exit code.
func (g *graveyard) fail(err error) error {
	if !errors.Is(err, deadletter.ErrUnsafe) {
		return deadError(err)
	}
	err = fmt.Errorf("%w (--force does it all the same)", err)
	if g.denied {
		return cli.WithCode(err, cli.ExitDenied)
	}
	return deadError(err)
}

// mind says what an interruption of a replay or drop of everything would do.
func (g *graveyard) mind(stderr io.Writer) {
	if g.dead.Handling.Take && g.dead.Handling.Why != "" {
		fmt.Fprintf(stderr, "do not interrupt this often: of queue %s, %s\n", g.where(), term.Printable(g.dead.Handling.Why, ""))
	}
}

// untold says that the store was not told of all that was taken off; why is nil if it was.
func (g *graveyard) untold(stderr io.Writer, why error) {
	if why != nil {
		fmt.Fprintf(stderr, "the store may not know of all that left queue %s: strikes status may call some missing: %s\n",
			g.where(), term.Printable(why.Error(), ""))
	}
}

// nothing returns the error, with its exit code, for a search that found no dead letter.
func (g *graveyard) nothing(want *sought) error { return g.fail(g.none(want)) }

func (g *graveyard) none(want *sought) error {
	if g.held != nil {
		return g.held
	}
	if g.unseen > 0 {
		return fmt.Errorf("%w to read queue %q, and the store has no records of such dead letters", deadletter.ErrUnsafe, g.dead.Name)
	}
	return want.none(g.dead.Name)
}
