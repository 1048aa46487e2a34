package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/internal/bench"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/topology"
)

func (a *app) benchCommand() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "measure strikes beside a bare client, the broker's own limit and counting by hand",
		Description: "Starts a private RabbitMQ and a private Redis, unless it is given others, and lets each contestant handle the same\n" +
			"messages, in turn, several times. The ratios are medians; every message of every contestant is accounted for.\n" +
			"Of private servers it also says how much CPU time each contestant's messages took, and where.\n" +
			"On servers of yours it declares queues and keys of its own, which it removes; what else they do falsifies the result.\n" +
			"Contests: " + strings.Join(bench.Contests(), ", ") + ". A million counters take 600 MB of the store's memory.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "amqp-url", Sources: env("amqp-url", "AMQP_URL"), DefaultText: "a private one", Usage: "the broker, as `URL`"},
			&cli.StringFlag{Name: "redis-url", Sources: env("redis-url", "REDIS_URL"), DefaultText: "a private one", Usage: "the store, as `URL` of a single Redis"},
			&cli.StringFlag{Name: "only", Usage: "the contests `NAME,…`", DefaultText: "all"},
			&cli.StringFlag{Name: "type", Value: "classic,quorum", Usage: "of the queues: `TYPE,…`"},
			&cli.StringFlag{Name: "failing", Value: "0,1,10", Usage: "of the messages, `PERCENT,…`"},
			&cli.IntFlag{Name: "messages", Value: 3000, Usage: "`NUMBER` in each queue"},
			&cli.IntFlag{Name: "rounds", Value: 5, Usage: "`NUMBER` that count; one before them warms up"},
			&cli.IntFlag{Name: "concurrency", Value: 8, Usage: "`NUMBER` of handlers at once where messages fail"},
			&cli.IntFlag{Name: "live", Value: 1_000_000, Usage: "`NUMBER` of counters to fill the store with"},
			&cli.DurationFlag{Name: "time", Value: 3 * time.Minute, Usage: "about as long as it may take, `TIME`: it does fewer rounds and counters then"},
			&cli.BoolFlag{Name: "quick", Usage: "one short round of each: whether it works, not how fast"},
			jsonFlag("print the result as one JSON object"),
		},
		Action: a.do(a.bench),
	}
}

func (a *app) bench(ctx context.Context, c *cli.Command) (err error) {
	if _, err := positional(c); err != nil {
		return err
	}
	o, err := benchOptions(c)
	if err != nil {
		return err
	}
	g := &benchServers{amqpURL: c.String("amqp-url"), redisURL: c.String("redis-url")}
	defer func() { err = errors.Join(err, g.close()) }()
	if err := g.open(ctx); err != nil {
		return err
	}
	b, err := newBroker(g.amqpURL, c.FullName())
	if err != nil {
		return err
	}
	if err := checkStore(ctx, g.redisURL); err != nil {
		return err
	}
	bar := newBenchProgress(a.stderr)
	defer bar.finish()
	o.Dial, o.DialPublisher, o.RedisURL, o.Name, o.Progress, o.CPU = b.dial, b.dialToPublish, g.redisURL, "strikes-bench-"+uuid.NewString()[:8], bar.show, g.cpu
	result, err := bench.Run(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	bar.finish()
	if c.Bool("json") {
		return ndjson(a.stdout).Encode(result)
	}
	return printBench(a.stdout, result)
}

// benchOptions are what the flags say.
func benchOptions(c *cli.Command) (bench.Options, error) {
	o := bench.Options{
		Messages: c.Int("messages"), Rounds: c.Int("rounds"), Concurrency: c.Int("concurrency"), Live: c.Int("live"), Time: c.Duration("time"),
		Only: listed(c.String("only")),
	}
	for _, flag := range []string{"messages", "rounds", "concurrency", "live"} {
		if n := c.Int(flag); n < 1 {
			return o, usagef("--%s is %d: it must be positive", flag, n)
		}
	}
	if o.Time <= 0 {
		return o, usagef("--time is %v: it must be positive", o.Time)
	}
	if err := benchKinds(c, &o); err != nil {
		return o, err
	}
	if c.Bool("quick") {
		quick := map[string]struct {
			field *int
			value int
		}{"messages": {&o.Messages, 100}, "rounds": {&o.Rounds, 1}, "live": {&o.Live, 2000}}
		for flag, q := range quick {
			if !c.IsSet(flag) {
				*q.field = q.value
			}
		}
	}
	if err := o.Validate(); err != nil {
		return o, usage(err)
	}
	return o, nil
}

// benchKinds reads what comes as a list.
func benchKinds(c *cli.Command, o *bench.Options) error {
	for _, name := range listed(c.String("type")) {
		kind := topology.Type(name)
		if kind != topology.Quorum && kind != topology.Classic {
			return usagef("--type has %q: it is quorum or classic, or both with a comma", name)
		}
		o.Types = append(o.Types, kind)
	}
	for _, text := range listed(c.String("failing")) {
		percent, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
		if err != nil {
			return usagef("--failing has %q: it is whole percents with commas, such as 0,1,10", text)
		}
		o.Failing = append(o.Failing, percent)
	}
	return nil
}

func listed(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// checkStore makes sure that the store answers, and that it is one which can be counted in by hand as well.
func checkStore(ctx context.Context, url string) error {
	store, err := openStore(ctx, url, "")
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	if _, err := redis.ParseURL(url); err != nil {
		return usagef("bench needs a single Redis: redis://, rediss:// or unix://, not %s", setting.RedactURL(url))
	}
	return nil
}

// benchServers are private where none are given.
type benchServers struct {
	amqpURL, redisURL string
	broker            *servers.RabbitMQ
	store             *servers.Redis
}

func (s *benchServers) open(ctx context.Context) (err error) {
	if s.amqpURL == "" {
		if s.broker, err = servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{}); err != nil {
			return missingServer(err, "RabbitMQ", "--amqp-url")
		}
		s.amqpURL = s.broker.URL
	}
	if s.redisURL == "" {
		if s.store, err = servers.StartRedis(ctx, servers.RedisOptions{}); err != nil {
			return missingServer(err, "Redis", "--redis-url")
		}
		s.redisURL = s.store.URL
	}
	return nil
}

// cpu is known of private servers.
func (s *benchServers) cpu() bench.CPU {
	if s.broker == nil || s.store == nil {
		return bench.CPU{}
	}
	return bench.CPU{Broker: s.broker.CPU(), Store: s.store.CPU(), Client: servers.OwnCPU()}
}

func missingServer(err error, what, flag string) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: install %s, or name one with %s", err, what, flag)
	}
	return err
}

func (s *benchServers) close() error {
	var errs []error
	if s.broker != nil {
		errs = append(errs, s.broker.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}
