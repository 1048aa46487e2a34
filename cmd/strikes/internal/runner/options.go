package runner

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/consumer"
)

// Options are the flags of consume.
type Options struct {
	connect.Flags

	MaxRetries, Concurrency, Prefetch          int
	Ordered, AckEach, AllowDrop, Verbose, JSON bool
	HoldLanes                                  bool
	LaneHeader, Backoff, Retry, Isolation      string
	HealthAddr                                 string // empty: no probes
	HTTP, HTTPCA, HTTPCert, HTTPKey, HTTPToken string // HTTP empty: a command handles the messages
	HandlerTimeout, DrainTimeout               time.Duration
	ConsumerTimeout, ExitWhenIdle, MaxAge      time.Duration
	DelayAbove                                 time.Duration
}

// MostRetries is what a consumer.Consumer takes.
const MostRetries = 1000

var (
	retryModes = map[string]consumer.RetryMode{"": consumer.RetryRequeue, "requeue": consumer.RetryRequeue,
		"in-place": consumer.RetryInPlace}
	isolations = map[string]consumer.Isolation{"suspects": consumer.IsolationSuspects, "off": consumer.IsolationOff}
)

// settings are what the flags say. Zero means none there, where it means the default in a consumer.Consumer.
func (o *Options) settings(queue string) (consumer.Consumer, error) {
	c := consumer.Consumer{
		Queue: queue, Concurrency: o.Concurrency, Prefetch: o.Prefetch, MaxRetries: o.MaxRetries, MaxAge: o.MaxAge,
		Retry: retryModes[o.Retry], Isolation: isolations[o.Isolation],
		HandlerTimeout: o.HandlerTimeout, DrainTimeout: o.DrainTimeout,
		ConsumerTimeout: o.ConsumerTimeout, AllowDrop: o.AllowDrop,
		Ordered: o.Ordered, HoldLanes: o.HoldLanes, AckEach: o.AckEach, DelayAbove: o.DelayAbove,
	}
	var err error
	if c.Management, err = o.Management(); err != nil {
		return c, err
	}
	if c.Ordered && o.Retry == "" {
		c.Retry = consumer.RetryInPlace
	}
	if o.LaneHeader != "" {
		c.Lane = func(d amqp.Delivery) string { return laneOf(d.Headers, o.LaneHeader) }
	}
	wait, err := ParseBackoff(o.Backoff)
	if err != nil {
		return c, cli.Misusef("--backoff: %w", err)
	}
	c.Backoff = wait.Wait
	if err := o.refuse(c); err != nil {
		return c, err
	}
	c.MaxRetries = orNone(c.MaxRetries)
	c.HandlerTimeout = orNone(c.HandlerTimeout)
	c.DrainTimeout = orNone(c.DrainTimeout)
	return c, nil
}

// laneOf returns the value of a header as text, which is the same on every host; messages without it share the empty
// lane.
func laneOf(headers amqp.Table, name string) string {
	switch v := headers[name].(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	default:
		return fmt.Sprint(v)
	}
}

// orNone turns zero into what a consumer.Consumer takes for none.
func orNone[N ~int | ~int64](n N) N {
	if n == 0 {
		return -1
	}
	return n
}

func (o *Options) refuse(k consumer.Consumer) error {
	switch {
	case o.ExitWhenIdle < 0:
		return cli.Refused("exit-when-idle", o.ExitWhenIdle, "0 or more")
	case k.Retry == 0:
		return cli.Refused("retry", o.Retry, "requeue or in-place")
	case k.Isolation == 0:
		return cli.Refused("isolation", o.Isolation, "suspects or off")
	case k.MaxRetries < 0 || k.MaxRetries > MostRetries:
		return cli.Refused("max-retries", k.MaxRetries, fmt.Sprintf("0 to %d", MostRetries))
	case k.MaxAge < 0:
		return cli.Refused("max-age", k.MaxAge, "0 or more")
	case k.Concurrency < 1 || k.Concurrency > 65535:
		return cli.Refused("concurrency", k.Concurrency, "1 to 65535")
	case k.Prefetch < 0 || k.Prefetch > 65535:
		return cli.Refused("prefetch", k.Prefetch, "1 to 65535, or 0 for the default")
	case k.HandlerTimeout < 0:
		return cli.Refused("handler-timeout", k.HandlerTimeout, "0 or more")
	case k.DrainTimeout < 0:
		return cli.Refused("drain-timeout", k.DrainTimeout, "0 or more")
	case k.Lane != nil && !k.Ordered:
		return cli.Misusef("--lane-header needs --ordered")
	case k.HoldLanes && !k.Ordered:
		return cli.Misusef("--hold-lanes needs --ordered")
	case k.Lane != nil && k.Retry == consumer.RetryRequeue:
		return cli.Refused("retry", o.Retry, "in-place with --lane-header, because a requeued message would stop all lanes")
	case k.Ordered && k.Lane == nil && k.Concurrency > 1:
		return cli.Refused("concurrency", k.Concurrency,
			"1 with --ordered, unless --lane-header says what may run side by side")
	case k.Ordered && k.Retry == consumer.RetryRequeue && k.Prefetch > 1:
		return cli.Refused("prefetch", k.Prefetch, "1 with --ordered and --retry requeue")
	case k.ConsumerTimeout < time.Minute:
		return cli.Refused("consumer-timeout", k.ConsumerTimeout, "that of the broker, 1m0s at least")
	case k.DelayAbove > 0 && k.Ordered:
		return cli.Misusef("--delay-above and --ordered exclude each other: a message that waits elsewhere is overtaken")
	case k.DelayAbove > 0 && (k.DelayAbove < consumer.DefaultDelayAbove || k.DelayAbove > max(k.ConsumerTimeout/2,
		consumer.DefaultDelayAbove)):
		return cli.Refused("delay-above", k.DelayAbove, fmt.Sprintf("%v to half of --consumer-timeout, 0 or negative",
			consumer.DefaultDelayAbove))
	case k.HandlerTimeout > k.ConsumerTimeout/2:
		return cli.Refused("handler-timeout", k.HandlerTimeout, fmt.Sprintf("at most %v, half of --consumer-timeout",
			k.ConsumerTimeout/2))
	}
	return nil
}
