package main

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/topology"
)

func (a *app) declareCommand() *cli.Command {
	return &cli.Command{
		Name:      "declare",
		Usage:     "declare a queue, its dead-letter exchange and its dead-letter queue",
		ArgsUsage: "QUEUE",
		Description: "Declares QUEUE, the fanout exchange QUEUE.dlx and the quorum queue QUEUE.dlq bound to it, all durable. It may\n" +
			"be repeated. What exists with other properties is left as it is and named (exit 2).",
		Flags: []cli.Flag{
			amqpFlag(),
			&cli.StringFlag{Name: "type", Sources: env("type"), Value: string(topology.Quorum), Usage: "of QUEUE: `TYPE` quorum or classic; QUEUE.dlq is a quorum queue either way"},
			&cli.BoolFlag{Name: "single-active-consumer", Usage: "one consumer at a time has messages, as strict order needs"},
			&cli.IntFlag{Name: "delivery-limit", Sources: env("delivery-limit"), DefaultText: "1000", Usage: "a quorum queue itself dead-letters what was returned `N` times: well above the retries of its consumers"},
			jsonFlag("print what is there now as one JSON object"),
		},
		Action: a.do(a.declare),
	}
}

// declared is what declare prints.
type declared struct {
	Queue              string `json:"queue"`
	Type               string `json:"type"`
	DeadLetterExchange string `json:"dead_letter_exchange"`
	DeadLetterQueue    string `json:"dead_letter_queue"`
}

func (a *app) declare(ctx context.Context, c *cli.Command) error {
	args, err := positional(c, "QUEUE")
	if err != nil {
		return err
	}
	kind, err := queueType(c)
	if err != nil {
		return err
	}
	spec := topology.Spec{
		Queue: args[0], Type: kind, SingleActiveConsumer: c.Bool("single-active-consumer"),
		DeadLetterExchange: args[0] + ".dlx", DeadLetterQueue: args[0] + ".dlq", DeliveryLimit: c.Int("delivery-limit"),
	}
	if err := spec.Validate(); err != nil {
		return usage(err)
	}
	b, err := brokerOf(c)
	if err != nil {
		return err
	}
	if err := b.with(ctx, func(conn *amqp.Connection) error { return topology.Declare(ctx, conn, spec) }); err != nil {
		return err
	}
	return a.printDeclared(declared{spec.Queue, string(kind), spec.DeadLetterExchange, spec.DeadLetterQueue}, c.Bool("json"))
}

func queueType(c *cli.Command) (topology.Type, error) {
	kind := topology.Type(c.String("type"))
	if kind != topology.Quorum && kind != topology.Classic {
		return "", usagef("--type is %q: it is quorum or classic", kind)
	}
	return kind, nil
}

func (a *app) printDeclared(d declared, asJSON bool) error {
	if asJSON {
		return ndjson(a.stdout).Encode(d)
	}
	_, err := fmt.Fprintf(a.stdout, "%s queue %s\ndead letters to exchange %s, queue %s\n",
		d.Type, shown(d.Queue), shown(d.DeadLetterExchange), shown(d.DeadLetterQueue))
	return err
}
