package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/push"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/topology"
)

type consume struct {
	cli.Streams
	connect.Flags

	set          consumer.Consumer // by the flags: a zero means none, not the default
	push         push.Options      // without a URL a command handles the messages
	exitWhenIdle time.Duration

	laneHeader, backoff, retry, isolation string
	healthAddr                            string // empty: no probes
	verbose, json                         bool
}

func (a *app) consumeCommand() *cobra.Command {
	o := consume{Streams: a.Streams}
	cmd := &cobra.Command{
		Use:   "consume QUEUE [flags] -- CMD [ARGS…]",
		Short: "run a command for each message, or post it to a URL", Args: consumeArgs,
		Example: `  strikes consume orders -- ./handle-order
  strikes consume orders --max-retries 5 --backoff 1s..1m -- php handle.php
  strikes consume orders --http http://127.0.0.1:8080/orders --concurrency 4`,
		Long: `CMD gets the body on its stdin. Exit code 0: done; 65: dead-letter the message
now; 75: not counted, and tried again after the backoff, because CMD could not
work for a reason other than the message; anything else: a failure, and the end
of CMD's stderr is kept as its reason. A message that failed is retried up to
--max-retries times, then dead-lettered. Each decision is reported with its
cause: strikes help words explains them.

CMD's environment has STRIKES_ATTEMPT (1, 2, …), STRIKES_LAST (the number of the
last attempt), STRIKES_MESSAGE_ID, STRIKES_QUEUE, STRIKES_EXCHANGE,
STRIKES_ROUTING_KEY, STRIKES_CONTENT_TYPE, STRIKES_REDELIVERED (true, false),
STRIKES_TOKEN (unique to the attempt) and STRIKES_FENCE (see
consumer.Attempt.Fence). CMD does not inherit STRIKES_AMQP_URL,
STRIKES_STORE_URL and STRIKES_MANAGEMENT_URL, which may hold passwords. It
inherits AMQP_URL and REDIS_URL, because it may need them.

The output of CMD is passed on whole, equal lines too: only CMD knows which of
them matter. With --json its stdout goes to stderr. In an outage --breaker keeps
attempts, and so the lines, few. If a pager stops reading the output, messages
wait unacked until it reads on.

Processes that CMD leaves running in its process group are killed. One that left
the group may end later. If consume is process 1 of a container, it stays as a
zombie: use an init, as docker run --init. If consume is killed with SIGKILL,
Linux kills CMD but not its children. So let a shell exec the handler:
sh -c 'exec ./handle-order'. A QUEUE that begins with - comes after a -- of its
own: consume -- -q -- CMD.

With --http URL instead of CMD each message is a POST, and the status of the
response decides: 2xx is done; 409, 410 and 422 dead-letter the message now;
429 and 503 do not count; any other is a failure. docs/push.md says more.

consume refuses to start (exit 2) on a queue whose failed messages would be lost
or lose their position. Once started, it survives outages of broker and store.
SIGINT, SIGTERM and SIGHUP let the commands or requests that run finish: exit 0
if everything was settled. A second signal, 0.2 s later or more, kills them;
their attempts are not counted. If nothing reads the output any more, because
the reader of its pipe has ended, consume stops likewise, and exits with 1.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, _ = dashed(cmd, args)
			return o.run(cmd.Context(), args[0], args[1:])
		},
	}
	o.addFlags(cmd)
	return cmd
}

// consumeArgs takes a QUEUE before -- and a CMD after it, or with --http a QUEUE alone.
func consumeArgs(cmd *cobra.Command, args []string) error {
	args, before := dashed(cmd, args)
	http := cmd.Flags().Changed("http")
	switch {
	case http && before >= 0:
		return fmt.Errorf("--http takes the place of a command; leave out -- and what follows")
	case http:
		return cli.CountArgs(cmd, args)
	case before < 0 && len(args) > 1:
		return fmt.Errorf("no command given; put -- before it")
	case before < 0 || before == len(args) || args[before] == "":
		return fmt.Errorf("no command given; put it after --, or give --http URL")
	case before != 1:
		return fmt.Errorf("one QUEUE comes before --, got %d arguments", before)
	}
	return nil
}

// dashed returns the arguments, and how many come before the -- of CMD; -1: there is none. A QUEUE that begins with -
// comes after a -- of its own, as in: consume -- -q -- CMD.
func dashed(cmd *cobra.Command, args []string) (all []string, before int) {
	before = cmd.ArgsLenAtDash()
	switch {
	case before != 0 || len(args) == 0:
		return args, before
	case len(args) == 1 && cmd.Flags().Changed("http"):
		return args, -1
	case len(args) > 1 && args[1] == "--":
		return slices.Delete(slices.Clone(args), 1, 2), 1
	}
	return args, before
}

func (o *consume) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.push.URL, "http", "",
		"post each message to this `URL` instead of running a command; http[s]://user:password@host:port/path")
	f.StringVar(&o.push.TokenFile, "http-token-file", "",
		"with --http: send the bearer token in this `FILE`, which is read for each message")
	o.AddBroker(cmd)
	o.AddStore(cmd)
	o.AddManagement(cmd)
	f.IntVar(&o.set.MaxRetries, "max-retries", consumer.DefaultMaxRetries,
		"retry a message `N` times after its first failure, then dead-letter it")
	cli.Age(f, &o.set.MaxAge, "max-age", "dead-letter a message that fails later than `TIME` after its first failed "+
		"attempt, whatever its count; --max-retries applies too, whichever comes first: to retry for 36h, raise it (1000 "+
		"at most); 0: no limit")
	f.IntVar(&o.set.Breaker, "breaker", 0, "for outages of a system that CMD needs: once `N` messages have failed with "+
		"no success since, count no failure, and two seconds later make only probes, until one succeeds; 8 is a good "+
		"value, 2 to 100; 0: count every failure")
	f.DurationVar(&o.set.Patience, "patience", 0, "with --breaker: for queues with less than a message a second; until "+
		"this `TIME` after the first failure of a message, its last attempt waits for another message to succeed, 30s at "+
		"most; if none does, the attempt does not count")
	f.IntVar(&o.set.Concurrency, "concurrency", 1, "run `N` commands, or requests, at the same time")
	f.IntVar(&o.set.Prefetch, "prefetch", 0, "take `N` unacked messages at most; 0: twice the concurrency, 10 at least; "+
		"with --ordered 30 at least, or 1 if --retry is requeue")
	f.BoolVar(&o.set.Ordered, "ordered", false, "handle no message before the one ahead of it is done; the queue must be "+
		"a single-active-consumer queue")
	f.IntVar(&o.set.Partitions, "partitions", 0, "with --ordered: QUEUE has `N` partitions (declare --partitions), which "+
		"the consumers share; messages of one routing key are a lane, and keep their order")
	f.StringVar(&o.laneHeader, "lane-header", "", "with --ordered: messages with the same value of the header `NAME` "+
		"are one lane, and keep their order; up to --concurrency lanes run at once")
	f.BoolVar(&o.set.HoldLanes, "hold-lanes", false, "with --lane-header or --partitions: dead-letter the later messages "+
		"of a lane too, without an attempt, once one of it is dead-lettered; strikes lane replays them in order. With "+
		"--ordered alone: pause the queue instead of dead-lettering a message, until limit set --id, counter reset or skip "+
		"decides about it")
	f.StringVar(&o.backoff, "backoff", defaultBackoff,
		"wait before a retry: `WAIT` is a time, or two with .. between: the first, doubled after each "+
			"failure up to the second. A random part of up to half is taken off")
	f.DurationVar(&o.set.DelayAbove, "delay-above", 0, "move a message that must wait longer than `TIME` for its retry "+
		"to the queues of declare --delay-queues: 1m to half of --consumer-timeout (15m by default); 0: 1m if they exist; "+
		"negative: never")
	cli.OneOf(cmd, &o.retry, "retry", "`WHERE` a failed message waits: requeue (it returns to its original position; "+
		"the default) or in-place (this process keeps it; the default with --ordered)", "requeue", "in-place")
	o.isolation = "suspects"
	cli.OneOf(cmd, &o.isolation, "isolation", "run messages isolated that may have killed a consumer: `WHICH` is "+
		"suspects or off", "suspects", "off")
	f.DurationVar(&o.set.HandlerTimeout, "handler-timeout", consumer.DefaultHandlerTimeout,
		"end a command or request after this `TIME` and count a failure; 0: never")
	f.DurationVar(&o.set.DrainTimeout, "drain-timeout", consumer.DefaultDrainTimeout,
		"let commands and requests finish for this `TIME` once stopped; 0: not at all")
	f.DurationVar(&o.set.ConsumerTimeout, "consumer-timeout", consumer.DefaultConsumerTimeout,
		"the broker's consumer_timeout, as `TIME`; no message waits unacked for more than half of it")
	f.DurationVar(&o.exitWhenIdle, "exit-when-idle", 0,
		"exit 0 once the queue is empty and for this `TIME` nothing was handled or waited; 0: never. A wait for a retry or "+
			"an open breaker keeps it running; a wait in a delay queue does not. A paused queue ends it too, with exit 1")
	f.StringVar(&o.healthAddr, "health-addr", "", "answer probes at this `ADDRESS`: /live always, /ready while messages "+
		"are consumed, which a pause ends")
	f.BoolVar(&o.set.Check.AllowDrop, "allow-drop", false, "accept a queue whose dead letters are lost")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "report every decision on stderr, not only what went wrong")
	cli.JSON(f, &o.json, "print every decision on stdout, one JSON object a line")
	cli.FromEnv(f, "http", "http-token-file", "max-retries", "max-age", "breaker",
		"patience", "concurrency", "prefetch", "ordered", "partitions", "lane-header", "hold-lanes", "backoff",
		"delay-above", "retry", "isolation", "handler-timeout", "drain-timeout", "consumer-timeout", "health-addr",
		"exit-when-idle", "allow-drop")
}

// retryModes has the mode for each value of --retry. Without --retry the consumer chooses the mode.
var retryModes = map[string]consumer.RetryMode{"requeue": consumer.RetryRequeue, "in-place": consumer.RetryInPlace}

func (o *consume) settings(queue string) (consumer.Consumer, error) {
	c := o.set
	c.Queue, c.Retry = queue, retryModes[o.retry]
	if o.isolation == "off" {
		c.Isolation = consumer.IsolationOff
	}
	if o.laneHeader != "" {
		c.Lane = func(d amqp.Delivery) string { return broker.HeaderText(d.Headers[o.laneHeader]) }
	}
	wait, err := parseBackoff(o.backoff)
	c.Backoff = wait.wait
	switch {
	case err != nil:
		return c, err
	case c.MaxRetries < 0:
		return c, cli.Refused("max-retries", c.MaxRetries, fmt.Sprintf("0 to %d", counter.MaxOverride))
	case c.Concurrency < 1 || c.Concurrency > 65535:
		return c, cli.Refused("concurrency", c.Concurrency, "1 to 65535")
	case c.HandlerTimeout < 0:
		return c, cli.Refused("handler-timeout", c.HandlerTimeout, "0 or more")
	case c.DrainTimeout < 0:
		return c, cli.Refused("drain-timeout", c.DrainTimeout, "0 or more")
	case o.exitWhenIdle < 0:
		return c, cli.Refused("exit-when-idle", o.exitWhenIdle, "0 or more")
	}
	c.MaxRetries = cmp.Or(c.MaxRetries, -1) // to a consumer -1 means none, and 0 its default
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, -1)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, -1)
	return c, c.Validate()
}

// run consumes a queue with a command, or an endpoint, as the handler.
func (o *consume) run(ctx context.Context, queue string, command []string) error {
	settings, err := o.settings(queue)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // else a write to a closed pipe kills the process
	unread := func() { stop(errUnread) }
	o.Out, o.Err = heard(o.Out, unread), heard(o.Err, unread)
	does, err := o.work(queue, command)
	if err != nil {
		return err
	}
	defer does.close()
	b, err := o.Broker()
	if err != nil {
		return err
	}
	store, err := o.StoreForSteps(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	conn, err := b.Dial(ctx)
	if err != nil {
		return err
	}
	settings.Counter = store
	need, err := b.Management(ctx, conn, inspect.Need{})
	if errors.Is(err, broker.ErrDenied) { // else it is silent: most consumers do without, and the check warns
		fmt.Fprintf(o.Err, withoutManagement, printable.Text(err.Error(), ""))
	}
	settings.Check.Management, settings.Check.HTTPClient = need.Management, need.HTTPClient
	w := &worker{
		consumer: settings, next: connect.After(conn, b.Dial), work: does, state: store.Admin().State,
		idle: &idle{patience: o.exitWhenIdle},
		log:  cli.NewLogger(o.Err, o.verbose, o.Cmd),
	}
	decisions := &lines{to: o.Err, all: o.verbose}
	if o.json {
		*decisions = lines{to: o.Out, all: true, json: true}
	}
	w.consumer.Observer = observers{decisions, w.idle}
	var probes health
	w.consumer.Consuming = func(yes bool) {
		if probes.consuming.Store(yes); yes {
			w.idle.consuming()
		}
	}
	if o.healthAddr != "" {
		stop, err := probes.serve(ctx, o.healthAddr, o.Err)
		if err != nil {
			return errors.Join(err, conn.Close())
		}
		defer stop()
	}
	defer context.AfterFunc(ctx, func() {
		if w.idle.busy() && !o.verbose { // else the log says it
			fmt.Fprintf(o.Err, "strikes: draining: running handlers have %v to finish; a second signal kills them\n",
				o.set.DrainTimeout)
		}
	})()
	err = w.run(ctx, o.Now)
	if o.set.Partitions == 0 && errors.Is(err, broker.ErrNotFound) {
		if of, n, _ := o.Partitions(ctx, queue); of == queue && n > 0 {
			return cli.Misusef("queue %s has %d partitions: give --ordered --partitions %d", printable.Name(queue), n, n)
		}
	}
	if errors.As(err, new(*topology.RefusedError)) && o.set.Partitions > 0 { // perhaps all partitions are missing
		if missing := o.RefuseMissing(ctx, queue); errors.Is(missing, broker.ErrNotFound) {
			return missing
		}
	}
	return b.NoQueue(queue, err)
}

// withoutManagement is said where the API's usual address was tried in vain.
const withoutManagement = "strikes: continuing without the management API (none was given, and its usual address was " +
	"tried): %s\n"

const defaultBackoff = "100ms..30s"

type backoff struct {
	first   time.Duration
	last    time.Duration // the longest
	doubles bool
}

// parseBackoff reads "5s", always that long, or "100ms..30s": doubled with each failure from the first to the last,
// less a random part of up to a half, so that messages which failed together do not come back together.
func parseBackoff(s string) (b backoff, err error) {
	from, to, isRange := strings.Cut(s, "..")
	b.first, err = time.ParseDuration(from)
	b.last, b.doubles = b.first, isRange
	if err == nil && isRange {
		b.last, err = time.ParseDuration(to)
	}
	if err != nil || b.first < 0 || b.last < b.first || isRange && b.first == 0 {
		return backoff{}, cli.Refused("backoff", s, "a time like 0, 500ms or 1m, or a rising range like 100ms..30s")
	}
	return b, nil
}

func (b backoff) wait(failed int) time.Duration {
	if !b.doubles {
		return b.first
	}
	d := b.first
	for ; failed > 1 && d < b.last; failed-- {
		d += min(d, b.last-d)
	}
	return d - rand.N(d/2+1) //nolint:gosec // guessing it gains nothing
}
