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
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/management"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

func (a *app) consumeCommand() *cobra.Command {
	var o consumeOptions
	cmd := cli.New("consume QUEUE [flags] -- CMD [ARGS…]", "run a command for each message of a queue, and retry those for which it fails", `
CMD gets the body on its stdin. Exit code 0: done; 65: dead-letter the message now; anything else: a failure, and the end of CMD's stderr is
kept as its reason. CMD's environment has STRIKES_ATTEMPT (1, 2, …), STRIKES_LAST (the number of the last attempt), STRIKES_MESSAGE_ID,
STRIKES_QUEUE, STRIKES_EXCHANGE, STRIKES_ROUTING_KEY, STRIKES_CONTENT_TYPE, STRIKES_REDELIVERED (true, false), STRIKES_TOKEN (unique to the
attempt) and STRIKES_FENCE (see consumer.Attempt.Fence).
CMD does not inherit STRIKES_AMQP_URL, STRIKES_REDIS_URL and STRIKES_MANAGEMENT_URL, which may hold passwords. It inherits AMQP_URL and
REDIS_URL, because it may need them.

What CMD prints is passed on, but with --json its stdout goes to stderr. What CMD leaves running in its process group is killed.

`[1:]+decisionMeanings+`

consume refuses to start (exit 2) on a queue whose failed messages would be lost or lose their position. Once started, it survives outages
of broker and store. SIGINT and SIGTERM let the commands that run finish: exit 0 if everything was settled. A second signal, 0.2 s later or
more, kills them; their attempts are not counted.`,
		func(ctx context.Context, args []string) error { return a.consume(ctx, o, args[0], args[1:]) })
	o.addTo(cmd)
	return cmd
}

func (a *app) consume(ctx context.Context, o consumeOptions, queue string, command []string) error {
	settings, err := o.settings(queue)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return cli.Misusef("the command cannot be run: %w", err)
	}
	b, err := o.Broker()
	if err != nil {
		return err
	}
	store, err := o.Store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	conn, err := b.Dial(ctx)
	if err != nil {
		return err
	}
	settings.Counter = store
	a.findManagement(ctx, b, conn, &settings)
	w := &worker{
		consumer: settings, broker: b, next: connect.After(conn, b.Dial),
		command: program{path: path, args: command[1:], stdout: a.Out, stderr: a.Err},
		idle:    idle{patience: o.exitWhenIdle},
		log:     cli.NewLogger(a.Err, o.verbose),
	}
	decisions := &lines{to: a.Err, all: o.verbose}
	if o.json {
		*decisions = lines{to: a.Out, all: true, json: true}
		w.command.stdout = a.Err
	}
	w.consumer.Observer = observers{decisions, &w.idle}
	return w.run(ctx, a.Now)
}

// worker is a consumer whose handler runs a command.
type worker struct {
	consumer consumer.Consumer
	command  program
	idle     idle
	broker   *connect.Broker
	next     func(context.Context) (*amqp.Connection, error)
	conn     atomic.Pointer[amqp.Connection] // of the session
	log      *slog.Logger
}

// run consumes until ctx is done, the queue has been empty for long enough, or the command cannot be started. Once now is
// closed it ends at once, with everything that runs.
func (w *worker) run(ctx context.Context, now <-chan struct{}) error {
	ctx, stop := context.WithCancelCause(ctx)
	w.consumer.Logger = w.log
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
		if cause := context.Cause(ctx); errors.Is(cause, errNotStarted) {
			return cause
		}
		return err
	case <-now:
		w.command.killAll()
		select {
		case <-done: //nolint:errcheck // how it ended at once is of no interest
		case <-time.After(lastWord):
		}
		return cli.WithCode(errors.New("ended at once: what was running is killed, and its messages return to the queue"), cli.ExitInterrupted)
	}
}

// lastWord is how long the store may take to hear that what was killed is not the messages' fault: a run that it believes to
// go on would be charged as a crash.
const lastWord = 3 * time.Second

func (w *worker) dial(ctx context.Context) (*amqp.Connection, error) {
	conn, err := w.next(ctx)
	w.conn.Store(conn)
	return conn, err
}

// handler runs the command. If it cannot be started, consuming is stopped, and so that is not charged to the message.
func (w *worker) handler(stop context.CancelCauseFunc) consumer.Handler {
	base := os.Environ()
	return func(ctx context.Context, d amqp.Delivery) error {
		w.idle.begin()
		defer w.idle.end()
		attempt, _ := consumer.AttemptFrom(ctx)
		env, omitted := environ(base, w.consumer.Queue, d, attempt)
		for _, name := range omitted {
			w.log.Warn("not told to the command: there is a NUL in it", "variable", name, "id", fmt.Sprintf("%q", d.MessageId))
		}
		err := w.command.run(ctx, env, d.Body)
		if errors.Is(err, errNotStarted) {
			w.log.Error("stopping; the message is not charged", "error", err)
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
	n, err := ready(conn, w.consumer.Queue)
	return err == nil && n == 0
}

// ready counts the messages of a queue that are not out with a consumer.
func ready(conn *amqp.Connection, queue string) (int, error) {
	ch, err := conn.Channel()
	if err != nil {
		return 0, err
	}
	defer ch.Close()
	q, err := queueinfo.Passive(ch, queue)
	return q.Messages, err
}

// findManagement gives a consumer the management API at its usual place, like the doctor, unless one was given. It is silent if
// none answers: most consumers do without, and the check warns of what it cannot see.
func (a *app) findManagement(ctx context.Context, b *connect.Broker, conn *amqp.Connection, c *consumer.Consumer) {
	if c.Management != "" {
		return
	}
	need, err := b.Management(ctx, conn, inspect.Need{})
	if errors.Is(err, management.ErrDenied) {
		fmt.Fprintf(a.Err, "strikes: going without the management API (none was given, and its usual place was tried): %s\n",
			term.Printable(err.Error(), ""))
	}
	c.Management, c.HTTPClient = need.Management, need.HTTPClient
}
