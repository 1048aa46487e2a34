package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/demo"
	"github.com/strikesmq/strikes/topology"
)

func (a *app) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := cli.New("demo", "watch two consumers retry, survive a crash and dead-letter, and see it proven", `
Starts a private RabbitMQ and an embedded store, unless others are given, publishes 20 orders and handles them in two processes. One order
fails twice, one always, and one kills the first processes that handle it. Then the broker, the store and a ledger of all attempts prove
what happened to them: exit 1 if anything is wrong. Nothing is left behind.`[1:],
		func(ctx context.Context, _ []string) error { return a.demo(ctx, o) })
	f := cmd.Flags()
	f.StringVar(&o.amqpURL, "amqp-url", "", "the broker, as `URL`")
	cli.FromEnvOr(f, "amqp-url", "AMQP_URL")
	cli.DefaultText(f, "amqp-url", "a private one")
	f.StringVar(&o.redisURL, "redis-url", "", "the store, as `URL`")
	cli.FromEnvOr(f, "redis-url", "REDIS_URL")
	cli.DefaultText(f, "redis-url", "an embedded one")
	f.StringVar(&o.kind, "type", string(topology.Quorum), "of the queues: `TYPE` quorum or classic")
	cli.JSON(f, &o.json, "print the verdict as one JSON object; the story goes to stderr")
	cli.OneOf(cmd, "type", "quorum", "classic")
	return cmd
}

// demoOptions are the flags of demo.
type demoOptions struct {
	amqpURL, redisURL, kind string
	json                    bool
}

func (a *app) demo(ctx context.Context, o demoOptions) error {
	kind, err := queueType(o.kind)
	if err != nil {
		return err
	}
	return demo.Run(ctx, demo.Options{AMQPURL: o.amqpURL, RedisURL: o.redisURL, Type: kind, JSON: o.json, Out: a.Out, Err: a.Err})
}

// demoWorkerCommand is one consumer process of the demo.
func (a *app) demoWorkerCommand() *cobra.Command {
	cmd := cli.New(demo.Command, "consume for the demo", "", func(ctx context.Context, _ []string) error { return demo.Work(ctx, a.In, a.Out) })
	cmd.Hidden = true
	return cmd
}
