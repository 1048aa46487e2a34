package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/declare"
	"github.com/strikesmq/strikes/topology"
)

func (a *app) declareCommand() *cobra.Command {
	c := declare.Command{Streams: a.Streams}
	cmd := cli.New("declare QUEUE", "declare a queue, its dead-letter exchange and its dead-letter queue", `
Declares QUEUE, the fanout exchange QUEUE.dlx and the quorum queue QUEUE.dlq bound to it, all durable. It may be repeated. What exists
with other properties is left as it is and named (exit 2).

--bind routes messages from an exchange to QUEUE, and may be repeated. The exchange must exist, unless --exchange-type declares it too. In the
name of the exchange write a colon as \: and a backslash as \\.

--delay-queues also declares what long delays need. The queues strikes.delay.1m, 10m, 1h, 6h and 24h serve the whole virtual host. QUEUE is bound to the
exchange strikes.delay, over which messages come back; those of a queue that is gone go to strikes.delay.lost. From their next session on, all
unordered consumers of the virtual host move delays over one minute, unless --delay-above is negative.`[1:],
		func(ctx context.Context, args []string) error { return c.Run(ctx, args[0]) })
	flags := cmd.Flags()
	c.AddBroker(cmd)
	flags.StringVar(&c.Type, "type", string(topology.Quorum),
		"of QUEUE: `TYPE` quorum or classic; QUEUE.dlq is a quorum queue either way")
	flags.BoolVar(&c.SingleActive, "single-active-consumer", false,
		"only one consumer at a time gets messages, as strict order requires")
	flags.IntVar(&c.DeliveryLimit, "delivery-limit", 0, "the broker dead-letters a message of a quorum queue that was "+
		"returned `N` times; set it well above the retries of the consumers")
	flags.StringArrayVar(&c.Bind, "bind", nil, "bind QUEUE, as `EXCHANGE:KEY`: a topic or direct exchange needs the "+
		"key; may be repeated")
	flags.StringVar(&c.ExchangeType, "exchange-type", "", "declare the exchanges of --bind, durable and of `TYPE` "+
		"topic, direct, fanout or headers; without it they must exist")
	flags.BoolVar(&c.DelayQueues, "delay-queues", false, "also declare the buckets in which messages of QUEUE wait for long delays")
	cli.FromEnv(flags, "type", "delivery-limit")
	cli.DefaultText(flags, "delivery-limit", "1000")
	cli.JSON(flags, &c.JSON, "print what is there now as one JSON object")
	cli.OneOf(cmd, "type", "quorum", "classic")
	cli.OneOf(cmd, "exchange-type", "topic", "direct", "fanout", "headers")
	return cmd
}
