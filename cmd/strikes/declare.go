package main

import (
	"context"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/topology"
)

func (a *app) declareCommand() *cobra.Command {
	var o declareOptions
	cmd := cli.New("declare QUEUE", "declare a queue, its dead-letter exchange and its dead-letter queue", `
Declares QUEUE, the fanout exchange QUEUE.dlx and the quorum queue QUEUE.dlq bound to it, all durable. It may be repeated. What exists
with other properties is left as it is and named (exit 2).

--bind routes messages from an exchange to QUEUE, and may be repeated. The exchange must exist, unless --exchange-type declares it too:

  strikes declare --exchange-type topic --bind shop:order.paid --bind shop:order.refunded billing`[1:],
		func(ctx context.Context, args []string) error { return a.declare(ctx, o, args[0]) })
	flags := cmd.Flags()
	o.AddBroker(cmd)
	flags.StringVar(&o.kind, "type", string(topology.Quorum), "of QUEUE: `TYPE` quorum or classic; QUEUE.dlq is a quorum queue either way")
	flags.BoolVar(&o.singleActive, "single-active-consumer", false, "only one consumer at a time gets messages, as strict order requires")
	flags.IntVar(&o.deliveryLimit, "delivery-limit", 0, "the broker dead-letters a message of a quorum queue that was returned `N` times; set it well above the retries of the consumers")
	flags.StringArrayVar(&o.bind, "bind", nil, "bind QUEUE, as `EXCHANGE:KEY`: the exchange ends at the first colon, a topic or direct exchange needs the key; may be repeated")
	flags.StringVar(&o.exchangeType, "exchange-type", "", "declare the exchanges of --bind, durable and of `TYPE` topic, direct, fanout or headers; without it they must exist")
	cli.FromEnv(flags, "type", "delivery-limit")
	cli.DefaultText(flags, "delivery-limit", "1000")
	cli.JSON(flags, &o.json, "print what is there now as one JSON object")
	cli.OneOf(cmd, "type", "quorum", "classic")
	cli.OneOf(cmd, "exchange-type", "topic", "direct", "fanout", "headers")
	return cmd
}

// declareOptions are the flags of declare.
type declareOptions struct {
	connect.Flags

	kind               string
	singleActive, json bool
	deliveryLimit      int
	bind               []string
	exchangeType       string
}

// declared is what declare prints.
type declared struct {
	Queue              string `json:"queue"`
	Type               string `json:"type"`
	DeadLetterExchange string `json:"dead_letter_exchange"`
	DeadLetterQueue    string `json:"dead_letter_queue"`

	Bindings []binding `json:"bindings,omitempty"`
}

type binding struct {
	Exchange string `json:"exchange"`
	Key      string `json:"key"`
}

func (a *app) declare(ctx context.Context, o declareOptions, queue string) error {
	kind, err := queueType(o.kind)
	if err != nil {
		return err
	}
	spec := topology.Spec{
		Queue: queue, Type: kind, SingleActiveConsumer: o.singleActive,
		DeadLetterExchange: queue + ".dlx", DeadLetterQueue: queue + ".dlq", DeliveryLimit: o.deliveryLimit, ExchangeType: o.exchangeType,
	}
	done := declared{Queue: spec.Queue, Type: string(kind), DeadLetterExchange: spec.DeadLetterExchange, DeadLetterQueue: spec.DeadLetterQueue}
	for _, bind := range o.bind {
		exchange, key, hasKey := strings.Cut(bind, ":")
		if exchange == "" || !hasKey && (o.exchangeType == "topic" || o.exchangeType == "direct") {
			return cli.Refused("bind", bind, "EXCHANGE:KEY")
		}
		spec.Bindings = append(spec.Bindings, topology.Binding{Exchange: exchange, Key: key})
		done.Bindings = append(done.Bindings, binding{exchange, key})
	}
	if err := spec.Validate(); err != nil {
		return cli.Misuse(err)
	}
	b, err := o.Broker()
	if err != nil {
		return err
	}
	if err := b.With(ctx, func(conn *amqp.Connection) error { return topology.Declare(ctx, conn, spec) }); err != nil {
		return err
	}
	return a.printDeclared(done, o.json)
}

func queueType(name string) (topology.Type, error) {
	kind := topology.Type(name)
	if kind != topology.Quorum && kind != topology.Classic {
		return "", cli.Refused("type", name, "quorum or classic")
	}
	return kind, nil
}

func (a *app) printDeclared(d declared, asJSON bool) error {
	if asJSON {
		return jsonl.NewEncoder(a.Out).Encode(d)
	}
	fmt.Fprintf(a.Out, "%s queue %s\n", d.Type, term.Shown(d.Queue))
	for _, b := range d.Bindings {
		fmt.Fprintf(a.Out, "messages from exchange %s, key %s\n", term.Shown(b.Exchange), term.Shown(b.Key))
	}
	_, err := fmt.Fprintf(a.Out, "dead letters to exchange %s, queue %s\n", term.Shown(d.DeadLetterExchange), term.Shown(d.DeadLetterQueue))
	return err
}
