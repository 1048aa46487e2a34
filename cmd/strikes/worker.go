package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/push"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
)

// worker is a consumer of a queue, for the command consume.
type worker struct {
	consumer consumer.Consumer
	work     work
	idle     *idle
	next     func(context.Context) (*amqp.Connection, error)
	conn     atomic.Pointer[amqp.Connection] // of the session
	state    func(ctx context.Context, vhost, queue string) (counter.QueueState, error)
	log      *slog.Logger
}

// run consumes until ctx is done, the queue has been empty or paused for long enough, or the command cannot be started.
// Once now is closed it ends immediately, with everything that runs.
func (w *worker) run(ctx context.Context, now <-chan struct{}) error {
	ctx, stop := context.WithCancelCause(ctx)
	w.consumer.Logger = w.log
	w.consumer.Handler = func(ctx context.Context, d amqp.Delivery) error {
		err := w.work.handle(ctx, d)
		if errors.Is(err, errNotStarted) {
			w.log.Error("stopping; the attempt is not counted", "error", err)
			stop(err)
		}
		return err
	}
	w.consumer.Key = w.idle.receive

	var idling sync.WaitGroup
	defer idling.Wait()
	defer stop(nil)
	if w.idle.patience > 0 {
		idling.Go(func() {
			var paused error
			if w.idle.wait(ctx, func(ctx context.Context) bool {
				paused = w.paused(ctx)
				return paused != nil || w.empty(ctx)
			}) {
				stop(paused)
			}
		})
	}
	done := make(chan error, 1)
	go func() { done <- w.consumer.Run(ctx, w.dial) }()
	select {
	case err := <-done:
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			return errors.Join(cause, err)
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

// empty asks the broker whether messages wait in the queue. Unknown is no, and so is an answer that does not count this
// consumer: RabbitMQ answers 0 and 0 for a quorum queue whose leader does not reply within 250 ms
// (rabbit_quorum_queue:stat in 3.10 to 4.3).
func (w *worker) empty(ctx context.Context) bool {
	conn := w.conn.Load()
	if conn == nil || conn.IsClosed() {
		return false
	}
	queues := []string{w.consumer.Queue}
	if n := w.consumer.Partitions; n > 0 {
		queues = broker.Partitions(w.consumer.Queue, n)
	}
	for _, queue := range queues {
		found, now, _ := broker.FindQueue(ctx, conn, queue)
		if found != broker.Yes || now.Messages > 0 || now.Consumers == 0 {
			return false
		}
	}
	return true
}

// paused asks the store, and returns an error that says how to go on. It is nil if the queue is not paused, or if the
// store does not reply.
func (w *worker) paused(ctx context.Context) error {
	conn := w.conn.Load()
	if conn == nil {
		return nil
	}
	queue := w.consumer.Queue
	state, _ := w.state(ctx, conn.Config.Vhost, queue)
	p := state.Paused
	if p == nil {
		return nil
	}
	next := "to go on, run: strikes resume " + shell.Operands(queue)
	if p.Holding != nil {
		next = "strikes status " + shell.Operands(queue) + " says how to go on"
	}
	return fmt.Errorf("queue %s is paused:%s; %s", printable.Name(queue), p.Text(), next)
}

// work is the handler of messages: a command, or an endpoint.
type work struct {
	handle    consumer.Handler
	cancel    func() // ends the running attempts, and lets no other begin
	close     func() // called once nothing runs
	cancelled string // the effect of cancel, for people
}

// work returns the work that the flags ask for, or the reason why it cannot be done.
func (o *consume) work(queue string, command []string) (work, error) {
	if o.Changed("http") {
		o.push.Queue, o.push.Connections = queue, o.set.Concurrency
		e, err := push.New(o.push)
		if err != nil {
			return work{}, cli.Misuse(err)
		}
		log.SetOutput(io.Discard) // only net/http uses it, and prints bytes after a response, which may quote a secret
		return work{handle: e.Handle, cancel: e.Cancel, close: e.Close, cancelled: "requests were cancelled"}, nil
	}
	if o.push.TokenFile != "" {
		return work{}, cli.Misusef("--http-token-file needs --http")
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		hint := ""
		if strings.Contains(command[0], " ") {
			hint = "; write it without quotes, or put sh -c before it"
		}
		return work{}, cli.Misusef("the command cannot be run: %w%s", err, hint)
	}
	killed, kill := context.WithCancel(context.Background())
	c := &program{Path: path, Args: command[1:], Stdout: o.Out, Stderr: o.Err, Killed: killed}
	if o.json {
		c.Stdout = o.Err
	}
	log := cli.NewLogger(o.Err, o.verbose, nil)
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
	return work{handle: handle, cancel: kill, close: kill, cancelled: "commands were killed"}, nil
}

// ownSecrets are this program's variables that may hold a password; a command does not inherit them. AMQP_URL and
// REDIS_URL are not this program's own: a command may need them.
var ownSecrets = []string{"STRIKES_AMQP_URL", "STRIKES_STORE_URL", "STRIKES_MANAGEMENT_URL"}

// environ adds the variables about its message to the environment base of a command. It removes those about another
// message, because this process may be such a command itself. It also takes away ownSecrets. A value with a NUL in it
// cannot be a variable; the names of those are returned.
func environ(base []string, queue string, d amqp.Delivery, a consumer.Attempt) (env, omitted []string) {
	about := [][2]string{
		{"STRIKES_ATTEMPT", strconv.Itoa(a.Number)},
		{"STRIKES_LAST", strconv.Itoa(a.Last)},
		{"STRIKES_MESSAGE_ID", d.MessageId},
		{"STRIKES_QUEUE", queue},
		{"STRIKES_EXCHANGE", d.Exchange},
		{"STRIKES_ROUTING_KEY", d.RoutingKey},
		{"STRIKES_CONTENT_TYPE", d.ContentType},
		{"STRIKES_REDELIVERED", strconv.FormatBool(d.Redelivered)},
		{"STRIKES_TOKEN", a.Token},
		{"STRIKES_FENCE", strconv.FormatInt(a.Fence, 10)},
	}
	env = slices.DeleteFunc(slices.Clone(base), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(ownSecrets, name) || slices.ContainsFunc(about, func(t [2]string) bool { return t[0] == name })
	})
	for _, t := range about {
		if strings.ContainsRune(t[1], 0) {
			omitted = append(omitted, t[0])
			continue
		}
		env = append(env, t[0]+"="+t[1])
	}
	return env, omitted
}

// idle finds out when a consumer has had nothing to do for some time.
type idle struct {
	patience time.Duration

	mu    sync.Mutex
	held  int       // deliveries that were received and not settled: they run, or wait for the store, a worker or a retry
	until time.Time // not idle before
}

// receive counts a delivery as something to do, until it is settled or left. It is the Key of a consumer, which is
// called once for each delivery, at its receipt, and returns the id that the consumer uses without a Key.
func (i *idle) receive(d amqp.Delivery) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held++
	i.extend()
	return d.MessageId
}

// Observe counts each outcome as something to do. The last outcome of a delivery ends its count.
func (i *idle) Observe(_ context.Context, e consumer.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch e.Outcome {
	case consumer.OutcomeAck, consumer.OutcomeRequeue, consumer.OutcomeDeadLetter, consumer.OutcomeMove,
		consumer.OutcomeSuperseded, consumer.OutcomeLeave:
		i.held--
	}
	i.extend()
}

// busy reports whether a delivery was received and is not settled.
func (i *idle) busy() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.held > 0
}

// consuming counts the begin of a session, or of the process, as something to do: its first message is on its way, and
// neither ready in the queue nor received.
func (i *idle) consuming() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.extend()
}

// extend has the consumer not idle for the patience from now on. The caller has locked i.mu.
func (i *idle) extend() { i.until = time.Now().Add(i.patience) }

// left is how long it takes at least to be idle.
func (i *idle) left() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if left := time.Until(i.until); i.held == 0 || left > 0 {
		return left
	}
	return i.patience
}

// wait returns true once there was nothing to do for the whole of the patience and over reports true. It returns false
// when ctx is done.
func (i *idle) wait(ctx context.Context, over func(context.Context) bool) bool {
	i.consuming()
	for {
		left := i.left()
		if left <= 0 {
			if over(ctx) && i.left() <= 0 {
				return true
			}
			left = i.patience
		}
		if !pause.For(ctx, max(left, leastLook)) {
			return false
		}
	}
}

// leastLook is how long the least patience waits before it asks the broker again.
const leastLook = 10 * time.Millisecond
