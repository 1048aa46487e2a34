package main

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/topology"
)

func (a *app) declareCommand() *urfave.Command {
	return &urfave.Command{
		Name:      "declare",
		Usage:     "declare a queue, its dead-letter exchange and its dead-letter queue",
		ArgsUsage: "QUEUE",
		Description: "Declares QUEUE, the fanout exchange QUEUE.dlx and the quorum queue QUEUE.dlq bound to it, all durable. It may\n" +
			"be repeated. What exists with other properties is left as it is and named (exit 2).",
		Flags: []urfave.Flag{
			amqpFlag(),
			&urfave.StringFlag{Name: "type", Sources: env("type"), Value: string(topology.Quorum), Usage: "of QUEUE: `TYPE` quorum or classic; QUEUE.dlq is a quorum queue either way"},
			&urfave.BoolFlag{Name: "single-active-consumer", Usage: "one consumer at a time has messages, as strict order needs"},
			&urfave.IntFlag{Name: "delivery-limit", Sources: env("delivery-limit"), DefaultText: "1000", Usage: "a quorum queue itself dead-letters what was returned `N` times: well above the retries of its consumers"},
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

func (a *app) declare(ctx context.Context, c *urfave.Command) error {
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
		return cli.Misuse(err)
	}
	b, err := brokerOf(c)
	if err != nil {
		return err
	}
	if err := b.With(ctx, func(conn *amqp.Connection) error { return topology.Declare(ctx, conn, spec) }); err != nil {
		return err
	}
	return a.printDeclared(declared{spec.Queue, string(kind), spec.DeadLetterExchange, spec.DeadLetterQueue}, c.Bool("json"))
}

func queueType(c *urfave.Command) (topology.Type, error) {
	kind := topology.Type(c.String("type"))
	if kind != topology.Quorum && kind != topology.Classic {
		return "", cli.Misusef("--type is %q: it is quorum or classic", kind)
	}
	return kind, nil
}

func (a *app) printDeclared(d declared, asJSON bool) error {
	if asJSON {
		return jsonl.NewEncoder(a.Out).Encode(d)
	}
	_, err := fmt.Fprintf(a.Out, "%s queue %s\ndead letters to exchange %s, queue %s\n",
		d.Type, term.Shown(d.Queue), term.Shown(d.DeadLetterExchange), term.Shown(d.DeadLetterQueue))
	return err
}
