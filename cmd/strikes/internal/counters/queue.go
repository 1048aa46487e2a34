// Package counters shows and changes what is counted of the messages of a queue, as the commands counter and limit do.
package counters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/change"
	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/ops"
)

// Command is one run of a verb: where the store is, how a change is made, and what each verb adds.
type Command struct {
	cli.Streams
	connect.Flags
	change.Options
	change.Note

	Most      int  // List
	Unchecked bool // SetLimit

	ID         string        // of the limits: the one message that they are of; empty: the queue
	MaxRetries int           // SetLimit
	MaxAge     time.Duration // SetLimit

	Wait  time.Duration // Pause
	Count time.Duration // Resume

	check func(ctx context.Context, queue string) error // before a change is planned; nil: none
}

// WithQueue opens the records of a queue for f, and closes them. Without --vhost the URL of the broker names the
// virtual host. The broker is asked only where the store knows nothing: the queue may be misspelt.
func (c *Command) WithQueue(ctx context.Context, queue string, f func(*ops.Queue) error) error {
	vhost := c.VHost
	if vhost == "" {
		b, err := c.Broker()
		if err != nil {
			return err
		}
		vhost = b.VHost
	}
	store, err := c.Store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	err = f(&ops.Queue{Store: store.Admin(), VHost: vhost, Name: queue, Warn: func(err error) {
		fmt.Fprintf(c.Err, "strikes: %s\n", term.Printable(err.Error(), ""))
	}})
	if errors.Is(err, ops.ErrNone) {
		if missing := c.RefuseMissing(ctx, queue); missing != nil {
			return missing
		}
	}
	return explain(err, c.RedisURL)
}

// explain adds the fix and the exit code to an error of package records.
func explain(err error, storeURL string) error {
	var foreign *ops.ForeignError
	switch {
	case errors.As(err, &foreign):
		return fmt.Errorf("%w, and was not written by it; until it is gone, consumers hold the message (store out of "+
			"reach); "+
			"look at it, then remove it: %s", err, redisCLI(storeURL, append([]string{"DEL"}, foreign.Keys...)...))
	case errors.Is(err, ops.ErrNone):
		return cli.WithCode(err, cli.ExitNothing)
	case errors.Is(err, counter.ErrOver):
		return cli.Misusef("%w: nothing is done; replay what is in the dead-letter queue instead", err)
	}
	return err
}
