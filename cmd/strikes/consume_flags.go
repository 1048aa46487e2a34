package main

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/consumer"
)

// consumeOptions are the flags of consume.
type consumeOptions struct {
	connect.Flags

	maxRetries, concurrency, prefetch          int
	ordered, ackEach, allowDrop, verbose, json bool
	lane, backoff, retry, isolation            string
	handlerTimeout, drainTimeout               time.Duration
	consumerTimeout, exitWhenIdle              time.Duration
}

func (o *consumeOptions) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	o.AddBroker(cmd)
	o.AddStore(cmd)
	o.AddManagement(cmd, "to check what AMQP cannot report")
	f.IntVar(&o.maxRetries, "max-retries", consumer.DefaultMaxRetries, "retry a message `N` times after its first failure, then dead-letter it")
	f.IntVar(&o.concurrency, "concurrency", 1, "run `N` commands at the same time")
	f.IntVar(&o.prefetch, "prefetch", 0, "hold `N` unacked messages at most; 0: twice the concurrency, 10 at least; with --ordered 30 at least, or 1 if --retry is requeue")
	f.BoolVar(&o.ordered, "ordered", false, "handle no message before the one ahead of it is done; the queue must be a single-active-consumer queue")
	f.StringVar(&o.lane, "lane", "", "with --ordered: keep the order among messages of one value of the header `NAME`, and run others beside them, up to --concurrency")
	f.BoolVar(&o.ackEach, "ack-each", false, "ack each message as soon as it is handled, not several within about 1ms")
	f.StringVar(&o.backoff, "backoff", defaultBackoff, "wait before a retry: `WAIT` is a time, or two with .. between, doubled from the first to the second")
	f.StringVar(&o.retry, "retry", "", "`WHERE` a failed message waits: requeue (it returns to its original position; the default) or in-place (this process keeps it; the default with --ordered)")
	f.StringVar(&o.isolation, "isolation", "suspects", "run messages isolated that may have killed a consumer: `WHICH` is suspects, strict (every message) or off")
	f.DurationVar(&o.handlerTimeout, "handler-timeout", consumer.DefaultHandlerTimeout, "end a command after this `TIME` and count a failure; 0: never")
	f.DurationVar(&o.drainTimeout, "drain-timeout", consumer.DefaultDrainTimeout, "let commands finish for this `TIME` once stopped; 0: not at all")
	f.DurationVar(&o.consumerTimeout, "consumer-timeout", consumer.DefaultConsumerTimeout, "the broker's consumer_timeout, as `TIME`; no message is held for more than half of it")
	f.DurationVar(&o.exitWhenIdle, "exit-when-idle", 0, "exit 0 once the queue is empty and nothing was to do for this `TIME`; 0: never")
	f.BoolVar(&o.allowDrop, "allow-drop", false, "accept a queue whose dead letters are lost")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "report every decision on stderr, not only what went wrong")
	cli.JSON(f, &o.json, "print every decision on stdout, one JSON object a line")
	cli.FromEnv(f, "max-retries", "concurrency", "prefetch", "ordered", "lane", "ack-each", "backoff", "retry", "isolation",
		"handler-timeout", "drain-timeout", "consumer-timeout", "exit-when-idle", "allow-drop")
	cli.OneOf(cmd, "retry", "requeue", "in-place")
	cli.OneOf(cmd, "isolation", "suspects", "strict", "off")
}

// mostRetries is what a consumer.Consumer takes.
const mostRetries = 1000

var (
	retryModes = map[string]consumer.RetryMode{"": consumer.RetryRequeue, "requeue": consumer.RetryRequeue, "in-place": consumer.RetryInPlace}
	isolations = map[string]consumer.Isolation{
		"suspects": consumer.IsolationSuspects, "strict": consumer.IsolationStrict, "off": consumer.IsolationOff,
	}
)

// settings are what the flags say. Zero means none there, where it means the default in a consumer.Consumer.
func (o *consumeOptions) settings(queue string) (consumer.Consumer, error) {
	c := consumer.Consumer{
		Queue: queue, Concurrency: o.concurrency, Prefetch: o.prefetch, MaxRetries: o.maxRetries,
		Retry: retryModes[o.retry], Isolation: isolations[o.isolation],
		HandlerTimeout: o.handlerTimeout, DrainTimeout: o.drainTimeout,
		ConsumerTimeout: o.consumerTimeout, AllowDrop: o.allowDrop,
		Ordered: o.ordered, AckEach: o.ackEach,
	}
	var err error
	if c.Management, err = o.Management(); err != nil {
		return c, err
	}
	if c.Ordered && o.retry == "" {
		c.Retry = consumer.RetryInPlace
	}
	if o.lane != "" {
		c.Lane = func(d amqp.Delivery) string { return fmt.Sprint(d.Headers[o.lane]) }
	}
	wait, err := parseBackoff(o.backoff)
	if err != nil {
		return c, cli.Misusef("--backoff: %w", err)
	}
	c.Backoff = wait.wait
	if err := o.refuse(c); err != nil {
		return c, err
	}
	c.MaxRetries = orNone(c.MaxRetries)
	c.HandlerTimeout = orNone(c.HandlerTimeout)
	c.DrainTimeout = orNone(c.DrainTimeout)
	return c, nil
}

// orNone turns zero into what a consumer.Consumer takes for none.
func orNone[N ~int | ~int64](n N) N {
	if n == 0 {
		return -1
	}
	return n
}

func (o *consumeOptions) refuse(k consumer.Consumer) error {
	switch {
	case o.exitWhenIdle < 0:
		return cli.Refused("exit-when-idle", o.exitWhenIdle, "0 or more")
	case k.Retry == 0:
		return cli.Refused("retry", o.retry, "requeue or in-place")
	case k.Isolation == 0:
		return cli.Refused("isolation", o.isolation, "suspects, strict or off")
	case k.MaxRetries < 0 || k.MaxRetries > mostRetries:
		return cli.Refused("max-retries", k.MaxRetries, fmt.Sprintf("0 to %d", mostRetries))
	case k.Concurrency < 1 || k.Concurrency > 65535:
		return cli.Refused("concurrency", k.Concurrency, "1 to 65535")
	case k.Prefetch < 0 || k.Prefetch > 65535:
		return cli.Refused("prefetch", k.Prefetch, "1 to 65535, or 0 for the default")
	case k.HandlerTimeout < 0:
		return cli.Refused("handler-timeout", k.HandlerTimeout, "0 or more")
	case k.DrainTimeout < 0:
		return cli.Refused("drain-timeout", k.DrainTimeout, "0 or more")
	case k.Lane != nil && !k.Ordered:
		return cli.Refused("lane", o.lane, "left out without --ordered")
	case k.Lane != nil && k.Retry == consumer.RetryRequeue:
		return cli.Refused("retry", o.retry, "in-place with --lane, because a requeued message would stop all lanes")
	case k.Ordered && k.Lane == nil && k.Concurrency > 1:
		return cli.Refused("concurrency", k.Concurrency, "1 with --ordered, unless --lane says what may run side by side")
	case k.Ordered && k.Retry == consumer.RetryRequeue && k.Prefetch > 1:
		return cli.Refused("prefetch", k.Prefetch, "1 with --ordered and --retry requeue")
	case k.ConsumerTimeout < time.Minute:
		return cli.Refused("consumer-timeout", k.ConsumerTimeout, "that of the broker, 1m0s at least")
	case k.HandlerTimeout > k.ConsumerTimeout/2:
		return cli.Refused("handler-timeout", k.HandlerTimeout, fmt.Sprintf("at most %v, half of --consumer-timeout", k.ConsumerTimeout/2))
	}
	return nil
}
