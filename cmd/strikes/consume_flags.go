package main

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/internal/setting"
)

func consumeFlags() []urfave.Flag {
	return []urfave.Flag{
		amqpFlag(), redisFlag(), prefixFlag(),
		managementFlag("to check what AMQP cannot report"),
		&urfave.IntFlag{Name: "max-retries", Sources: env("max-retries"), Value: consumer.DefaultMaxRetries, Usage: "retry a message `N` times after its first failure, then dead-letter it"},
		&urfave.IntFlag{Name: "concurrency", Sources: env("concurrency"), Value: 1, Usage: "run `N` commands at once"},
		&urfave.IntFlag{Name: "prefetch", Sources: env("prefetch"), Usage: "take `N` messages from the broker at once; 0: twice the concurrency, 10 at least; with --ordered 30 at least, or 1 if --retry is requeue"},
		&urfave.BoolFlag{Name: "ordered", Sources: env("ordered"), Usage: "handle no message before the one ahead of it is done; the queue must be a single-active-consumer queue"},
		&urfave.StringFlag{Name: "lane", Sources: env("lane"), Usage: "with --ordered: keep the order among messages of one value of the header `NAME`, and run others beside them, up to --concurrency"},
		&urfave.BoolFlag{Name: "ack-each", Sources: env("ack-each"), Usage: "ack each message as soon as it is handled, not several within about 1ms"},
		&urfave.StringFlag{Name: "backoff", Sources: env("backoff"), Value: defaultBackoff, Usage: "wait before a retry: `WAIT` is a time, or two with .. between, doubled from the first to the second"},
		&urfave.StringFlag{Name: "retry", Sources: env("retry"), Usage: "`WHERE` a failed message waits: requeue (it returns to its place; the default) or in-place (this process keeps it; the default with --ordered)"},
		&urfave.StringFlag{Name: "isolation", Sources: env("isolation"), Value: "suspects", Usage: "run messages alone that may have killed a consumer: `WHICH` is suspects, strict (every message) or off"},
		&urfave.DurationFlag{Name: "handler-timeout", Sources: env("handler-timeout"), Value: consumer.DefaultHandlerTimeout, Usage: "end a command after this `TIME` and count a failure; 0: never"},
		&urfave.DurationFlag{Name: "drain-timeout", Sources: env("drain-timeout"), Value: consumer.DefaultDrainTimeout, Usage: "how long commands may finish once stopped; 0: not at all"},
		&urfave.DurationFlag{Name: "consumer-timeout", Sources: env("consumer-timeout"), Value: consumer.DefaultConsumerTimeout, Usage: "the broker's consumer_timeout; no message is held for more than half of it"},
		&urfave.DurationFlag{Name: "exit-when-idle", Sources: env("exit-when-idle"), Usage: "exit 0 once the queue is empty and nothing was to do for this `TIME`; 0: never"},
		&urfave.BoolFlag{Name: "allow-drop", Sources: env("allow-drop"), Usage: "accept a queue whose dead letters are lost"},
		&urfave.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "say every decision on stderr, not only what went wrong"},
		jsonFlag("print every decision on stdout, one JSON object a line"),
	}
}

// mostRetries is what a consumer.Consumer takes.
const mostRetries = 1000

// settings are the flags of consume, understood.
type settings struct {
	consumer     consumer.Consumer
	command      []string
	exitWhenIdle time.Duration
	verbose      bool
	json         bool
}

var (
	retryModes = map[string]consumer.RetryMode{"": consumer.Requeue, "requeue": consumer.Requeue, "in-place": consumer.InPlace}
	isolations = map[string]consumer.Isolation{
		"suspects": consumer.IsolateSuspects, "strict": consumer.Strict, "off": consumer.Off,
	}
)

// consumeSettings reads the flags. Zero means none there, where it means the default in a consumer.Consumer.
func consumeSettings(c *urfave.Command, trailing []string) (settings, error) {
	s := settings{command: trailing, exitWhenIdle: c.Duration("exit-when-idle"), verbose: c.Bool("verbose"), json: c.Bool("json")}
	args := c.Args().Slice()
	queue := args[:len(args)-len(trailing)]
	switch {
	case len(trailing) == 0 || trailing[0] == "":
		return s, cli.Misusef("strikes consume: no command given; put it after -- (see strikes consume --help)")
	case len(queue) == 0 || queue[0] == "":
		return s, cli.Misusef("strikes consume: no QUEUE given; put it before -- (see strikes consume --help)")
	case len(queue) > 1:
		return s, cli.Misusef("strikes consume: %q is one argument too many before -- (see strikes consume --help)", shownArgument(queue[1]))
	case s.exitWhenIdle < 0:
		return s, refusedFlag("exit-when-idle", s.exitWhenIdle, "0 or more")
	}
	if err := queueinfo.CheckName(queue[0]); err != nil {
		return s, cli.Misusef("strikes consume: QUEUE: %w", err)
	}
	api, err := managementOf(c)
	if err != nil {
		return s, err
	}
	s.consumer = consumer.Consumer{
		Queue: queue[0], Concurrency: c.Int("concurrency"), Prefetch: c.Int("prefetch"), MaxRetries: c.Int("max-retries"),
		Retry: retryModes[c.String("retry")], Isolation: isolations[c.String("isolation")],
		HandlerTimeout: c.Duration("handler-timeout"), DrainTimeout: c.Duration("drain-timeout"),
		ConsumerTimeout: c.Duration("consumer-timeout"), AllowDrop: c.Bool("allow-drop"), Management: api,
		Ordered: c.Bool("ordered"), AckEach: c.Bool("ack-each"),
	}
	if s.consumer.Ordered && c.String("retry") == "" {
		s.consumer.Retry = consumer.InPlace
	}
	if header := c.String("lane"); header != "" {
		s.consumer.Lane = func(d amqp.Delivery) string { return fmt.Sprint(d.Headers[header]) }
	}
	wait, err := parseBackoff(c.String("backoff"))
	if err != nil {
		return s, cli.Misusef("--backoff: %w", err)
	}
	s.consumer.Backoff = wait.wait
	if err := refuseSettings(c, s.consumer); err != nil {
		return s, err
	}
	s.consumer.MaxRetries = orNone(s.consumer.MaxRetries)
	s.consumer.HandlerTimeout = orNone(s.consumer.HandlerTimeout)
	s.consumer.DrainTimeout = orNone(s.consumer.DrainTimeout)
	return s, nil
}

// orNone turns zero into what a consumer.Consumer takes for none.
func orNone[N ~int | ~int64](n N) N {
	if n == 0 {
		return -1
	}
	return n
}

func refuseSettings(c *urfave.Command, k consumer.Consumer) error {
	switch {
	case k.Retry == 0:
		return refusedFlag("retry", c.String("retry"), "requeue or in-place")
	case k.Isolation == 0:
		return refusedFlag("isolation", c.String("isolation"), "suspects, strict or off")
	case k.MaxRetries < 0 || k.MaxRetries > mostRetries:
		return refusedFlag("max-retries", k.MaxRetries, fmt.Sprintf("0 to %d", mostRetries))
	case k.Concurrency < 1 || k.Concurrency > 65535:
		return refusedFlag("concurrency", k.Concurrency, "1 to 65535")
	case k.Prefetch < 0 || k.Prefetch > 65535:
		return refusedFlag("prefetch", k.Prefetch, "1 to 65535, or 0 for the default")
	case k.HandlerTimeout < 0:
		return refusedFlag("handler-timeout", k.HandlerTimeout, "0 or more")
	case k.DrainTimeout < 0:
		return refusedFlag("drain-timeout", k.DrainTimeout, "0 or more")
	case k.Lane != nil && !k.Ordered:
		return refusedFlag("lane", c.String("lane"), "left out without --ordered")
	case k.Lane != nil && k.Retry == consumer.Requeue:
		return refusedFlag("retry", c.String("retry"), "in-place with --lane, because a requeued message would stop all lanes")
	case k.Ordered && k.Lane == nil && k.Concurrency > 1:
		return refusedFlag("concurrency", k.Concurrency, "1 with --ordered, unless --lane says what may run side by side")
	case k.Ordered && k.Retry == consumer.Requeue && k.Prefetch > 1:
		return refusedFlag("prefetch", k.Prefetch, "1 with --ordered and --retry requeue")
	case k.ConsumerTimeout < time.Minute:
		return refusedFlag("consumer-timeout", k.ConsumerTimeout, "that of the broker, 1m0s at least")
	case k.HandlerTimeout > k.ConsumerTimeout/2:
		return refusedFlag("handler-timeout", k.HandlerTimeout, fmt.Sprintf("at most %v, half of --consumer-timeout", k.ConsumerTimeout/2))
	}
	return nil
}

// refusedFlag is the error for the value of a flag.
func refusedFlag(name string, value any, want string) error {
	return cli.Misuse(setting.New("--"+name, value, want))
}
