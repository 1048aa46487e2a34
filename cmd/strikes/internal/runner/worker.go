package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/consumer"
)

// worker is a consumer of a queue, for the command consume.
type worker struct {
	consumer consumer.Consumer
	work     work
	idle     *idle
	next     func(context.Context) (*amqp.Connection, error)
	conn     atomic.Pointer[amqp.Connection] // of the session
	log      *slog.Logger
}

// run consumes until ctx is done, the queue has been empty for long enough, or the command cannot be started. Once now
// is closed it ends immediately, with everything that runs.
func (w *worker) run(ctx context.Context, now <-chan struct{}) error {
	ctx, stop := context.WithCancelCause(ctx)
	w.consumer.Logger = slog.New(undecided{w.log.Handler()})
	w.consumer.Handler = w.handler(stop)

	var idling sync.WaitGroup
	defer idling.Wait()
	defer stop(nil)
	if w.idle.patience > 0 {
		idling.Go(func() {
			if w.idle.wait(ctx, w.empty) {
				stop(nil)
			}
		})
	}
	done := make(chan error, 1)
	go func() { done <- w.consumer.Run(ctx, w.dial) }()
	select {
	case err := <-done:
		if cause := context.Cause(ctx); errors.Is(cause, ErrNotStarted) {
			return cause
		}
		return err
	case <-now:
		w.work.cancel()
		select {
		case <-done: //nolint:errcheck // how it ended does not matter
		case <-time.After(lastWord):
		}
		return cli.WithCode(fmt.Errorf("stopped immediately: running %s, and their messages return to the queue",
			w.work.cancelled), cli.ExitInterrupted)
	}
}

// lastWord bounds the last requests to the store: they end the killed attempts, which it would otherwise find open and
// count as crashes.
const lastWord = 3 * time.Second

func (w *worker) dial(ctx context.Context) (*amqp.Connection, error) {
	conn, err := w.next(ctx)
	w.conn.Store(conn)
	return conn, err
}

// handler hands a message to the work. If that cannot be started, consuming is stopped, and the attempt is not counted.
func (w *worker) handler(stop context.CancelCauseFunc) consumer.Handler {
	return func(ctx context.Context, d amqp.Delivery) error {
		attempt, _ := consumer.AttemptFrom(ctx)
		w.idle.begin(attempt.Token)
		err := w.work.handle(ctx, d)
		if errors.Is(err, ErrNotStarted) {
			w.log.Error("stopping; the attempt is not counted", "error", err)
			stop(err)
		}
		return err
	}
}

// empty asks the broker whether messages wait in the queue. Unknown is no.
func (w *worker) empty() bool {
	conn := w.conn.Load()
	if conn == nil || conn.IsClosed() {
		return false
	}
	n, err := connect.Ready(conn, w.consumer.Queue)
	return err == nil && n == 0
}
