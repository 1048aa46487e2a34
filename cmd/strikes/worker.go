package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/push"
	"github.com/strikesmq/strikes/cmd/strikes/internal/runner"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/broker"
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
	w.consumer.Key = w.idle.receive

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
		if cause := context.Cause(ctx); errors.Is(cause, runner.ErrNotStarted) {
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
		err := w.work.handle(ctx, d)
		if errors.Is(err, runner.ErrNotStarted) {
			w.log.Error("stopping; the attempt is not counted", "error", err)
			stop(err)
		}
		return err
	}
}

// empty asks the broker whether messages wait in the queue. Unknown is no, and so is an answer that does not count this
// consumer: a busy broker answers 0 for both. A paused queue has no consumer, so it is not empty.
func (w *worker) empty() bool {
	conn := w.conn.Load()
	if conn == nil || conn.IsClosed() {
		return false
	}
	queues := []string{w.consumer.Queue}
	if n := w.consumer.Partitions; n > 0 {
		queues = nil
		for i := range n {
			queues = append(queues, broker.Partition(w.consumer.Queue, i))
		}
	}
	for _, queue := range queues {
		if messages, consumers, err := connect.Ready(conn, queue); err != nil || messages > 0 || consumers == 0 {
			return false
		}
	}
	return true
}

// work is what handles messages: a command, or an endpoint.
type work struct {
	handle    consumer.Handler
	cancel    func() // ends what runs, and lets nothing begin
	close     func() // called once nothing runs
	cancelled string // what cancel did, for people
}

// work returns what the flags ask for, or why that cannot be.
func (o *consume) work(queue string, command []string) (work, error) {
	if o.http != "" {
		return o.posts(queue)
	}
	for name, value := range map[string]string{"http-ca": o.httpCA, "http-cert": o.httpCert, "http-key": o.httpKey,
		"http-token-file": o.httpToken} {
		if value != "" {
			return work{}, cli.Misusef("--%s needs --http", name)
		}
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return work{}, cli.Misusef("the command cannot be run: %w", err)
	}
	c := &runner.Command{Path: path, Args: command[1:], Stdout: o.Out, Stderr: o.Err}
	if o.json {
		c.Stdout = o.Err
	}
	log := cli.NewLogger(o.Err, o.verbose)
	base := os.Environ()
	handle := func(ctx context.Context, d amqp.Delivery) error {
		attempt, _ := consumer.AttemptFrom(ctx)
		env, omitted := environ(base, queue, d, attempt)
		for _, name := range omitted {
			log.Warn("a variable was not passed to the command: its value has a NUL", "variable", name,
				"id", fmt.Sprintf("%q", d.MessageId))
		}
		return c.Run(ctx, env, d.Body)
	}
	return work{handle: handle, cancel: c.KillAll, close: func() {}, cancelled: "commands were killed"}, nil
}

func (o *consume) posts(queue string) (work, error) {
	e, err := push.New(push.Options{
		URL: o.http, CA: o.httpCA, Cert: o.httpCert, Key: o.httpKey, TokenFile: o.httpToken, Queue: queue,
		Connections: o.concurrency,
	})
	if err != nil {
		return work{}, cli.Misuse(err)
	}
	return work{handle: e.Handle, cancel: e.Cancel, close: e.Close, cancelled: "requests were cancelled"}, nil
}
