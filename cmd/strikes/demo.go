package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/demo"
	"github.com/strikesmq/strikes/console"
	"github.com/strikesmq/strikes/topology"
)

func (a *app) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use: "demo", Short: "watch two consumers retry, survive a crash and dead-letter", Args: cobra.ExactArgs(0),
		Example: "  strikes demo\n  strikes demo --console",
		Long: `Starts a private RabbitMQ and an embedded store, unless others are given,
publishes 20 orders and handles them in two processes. One order fails twice,
one always, and one kills the first processes that handle it. Then the broker,
the store and a ledger of all attempts prove what happened to them: exit 1 if
anything is wrong. Nothing is left behind.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.amqpURL, "amqp-url", "", "the broker, as `URL`")
	cli.FromEnvOr(f, "amqp-url", "AMQP_URL")
	cli.DefaultText(f, "amqp-url", "a private one")
	f.StringVar(&o.redisURL, "redis-url", "", "the store, as `URL`")
	cli.FromEnvOr(f, "redis-url", "REDIS_URL")
	cli.DefaultText(f, "redis-url", "an embedded one")
	f.StringVar(&o.kind, "type", string(topology.Quorum), "of the queues: `TYPE` quorum or classic")
	f.BoolVar(&o.console, "console", false, "then serve the console on the demo's queue, until interrupted")
	cli.JSON(f, &o.json, "print the verdict as one JSON object; the story goes to stderr")
	cli.OneOf(cmd, "type", "quorum", "classic")
	return cmd
}

// demoOptions are the flags of demo.
type demoOptions struct {
	amqpURL, redisURL, kind string
	json, console           bool
}

func (a *app) demo(ctx context.Context, o demoOptions) error {
	kind, err := queueType(o.kind)
	if err != nil {
		return err
	}
	d := demo.Options{AMQPURL: o.amqpURL, RedisURL: o.redisURL, Type: kind, JSON: o.json, Out: a.Out, Err: a.Err}
	if o.console {
		d.After = a.showDemo
	}
	return demo.Run(ctx, d)
}

// showDemo serves the console on what a demo left behind, at a free port. It ends with ctx.
func (a *app) showDemo(ctx context.Context, s demo.Scene) error {
	c, err := console.New(console.Options{
		Store: s.Store, Dial: s.Broker.Dial, VHost: s.Broker.VHost, Queues: []string{s.Queue}, Actor: thisUser(),
		Allow: console.Verbs{console.VerbReplay, console.VerbReset, console.VerbSkip, console.VerbLimit, console.VerbPause},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprint(a.Err, "the console is at the URL below; interrupt to end the demo\n")
	at := pages{address: "127.0.0.1:0"}
	return at.serve(ctx, c, a.Out)
}

// demoWorkerCommand is one consumer process of the demo.
func (a *app) demoWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use: demo.Command, Short: "consume for the demo", Args: cobra.ExactArgs(0), Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return demo.Work(cmd.Context(), a.In, a.Out) },
	}
}
