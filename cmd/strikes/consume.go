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
	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/management"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

func (a *app) consumeCommand() *urfave.Command {
	return &urfave.Command{
		Name:      "consume",
		Usage:     "run a command for each message of a queue, and retry those for which it fails",
		ArgsUsage: "QUEUE [flags] -- CMD [ARGS…]",
		Description: "CMD gets the body on its stdin. Exit code 0: done; 65: dead-letter the message now; anything else: a failure, of\n" +
			"which the end of CMD's stderr is kept as the reason. In its environment: STRIKES_ATTEMPT (1, 2, …), STRIKES_LAST\n" +
			"(the number of the last attempt), STRIKES_MESSAGE_ID, STRIKES_QUEUE, STRIKES_EXCHANGE, STRIKES_ROUTING_KEY,\n" +
			"STRIKES_CONTENT_TYPE, STRIKES_REDELIVERED (true, false), STRIKES_TOKEN (unique to the run), STRIKES_FENCE (see\n" +
			"consumer.Attempt.Fence).\n" +
			"CMD does not inherit STRIKES_AMQP_URL, STRIKES_REDIS_URL and STRIKES_MANAGEMENT_URL, which may hold passwords. It\n" +
			"inherits AMQP_URL and REDIS_URL, because it may need them.\n\n" +
			"What CMD prints is passed on, but with --json its stdout goes to stderr. What CMD leaves running in its\n" +
			"process group is killed.\n\n" +
			decisionMeanings + "\n\n" +
			"It refuses to start (exit 2) on a queue whose failed messages would be lost or lose their place; once it has\n" +
			"started, it survives outages of broker and store. SIGINT and SIGTERM let the commands that run finish: exit 0 if\n" +
			"everything was settled. A second one, 0.2 s later or more, kills them; their messages are not charged.",
		Flags:  consumeFlags(),
		Action: a.do(a.consume),
	}
}

func (a *app) consume(ctx context.Context, c *urfave.Command) error {
	set, err := consumeSettings(c, a.trailing)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(set.command[0])
	if err != nil {
		return cli.Misusef("the command cannot be run: %w", err)
	}
	b, err := brokerOf(c)
	if err != nil {
		return err
	}
	store, err := storeOf(ctx, c)
	if err != nil {
		return err
	}
	defer store.Close()
	conn, err := b.Dial(ctx)
	if err != nil {
		return err
	}
	set.consumer.Counter = store
	a.findManagement(ctx, b, conn, &set.consumer)
	w := &worker{
		consumer: set.consumer, broker: b, next: connect.After(conn, b.Dial),
		command: command{path: path, args: set.command[1:], stdout: a.Out, stderr: a.Err},
		idle:    idle{patience: set.exitWhenIdle},
		log:     cli.NewLogger(a.Err, set.verbose),
	}
	decisions := &lines{to: a.Err, all: set.verbose}
	if set.json {
		*decisions = lines{to: a.Out, all: true, json: true}
		w.command.stdout = a.Err
	}
	w.consumer.Observer = observers{decisions, &w.idle}
	return w.run(ctx, a.Now)
}

// worker is a consumer whose handler runs a command.
type worker struct {
	consumer consumer.Consumer
	command  command
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
