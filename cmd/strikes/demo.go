package main

import (
	"context"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/demo"
	"github.com/strikesmq/strikes/topology"
)

func (a *app) demoCommand() *urfave.Command {
	return &urfave.Command{
		Name:  "demo",
		Usage: "watch two consumers retry, survive a crash and dead-letter, and see it proven",
		Description: "Starts a private RabbitMQ and an embedded store, unless others are given, publishes 20 orders and handles them\n" +
			"in two processes. One order fails twice, one always, and one kills the first processes that handle it.\n" +
			"Then the broker, the store and a ledger of all attempts prove what became of them: exit 1 if anything is off.\n" +
			"Nothing is left behind.",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "amqp-url", Sources: env("amqp-url", "AMQP_URL"), DefaultText: "a private one", Usage: "the broker, as `URL`"},
			&urfave.StringFlag{Name: "redis-url", Sources: env("redis-url", "REDIS_URL"), DefaultText: "an embedded one", Usage: "the store, as `URL`"},
			&urfave.StringFlag{Name: "type", Value: string(topology.Quorum), Usage: "of the queues: `TYPE` quorum or classic"},
			jsonFlag("print the verdict as one JSON object; the story goes to stderr"),
		},
		Action: a.do(a.demo),
	}
}

func (a *app) demo(ctx context.Context, c *urfave.Command) error {
	if _, err := positional(c); err != nil {
		return err
	}
	kind, err := queueType(c)
	if err != nil {
		return err
	}
	return demo.Run(ctx, demo.Options{
		AMQPURL: c.String("amqp-url"), RedisURL: c.String("redis-url"), Type: kind, JSON: c.Bool("json"), Out: a.Out, Err: a.Err,
	})
}

// demoWorkerCommand is one consumer process of the demo.
func (a *app) demoWorkerCommand() *urfave.Command {
	return &urfave.Command{
		Name:   demo.Command,
		Hidden: true,
		Action: a.do(func(ctx context.Context, _ *urfave.Command) error { return demo.Work(ctx, a.In, a.Out) }),
	}
}
