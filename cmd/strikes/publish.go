package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/publish"
)

func (a *app) publishCommand() *cobra.Command {
	var o publish.Options
	cmd := cli.New("publish QUEUE|KEY [FILE…]",
		"publish messages that can be counted: with an id, persistent, confirmed", `
Each line of the files (- or none: of stdin) is one message, without its \n; an empty line is an empty message.
With --ndjson each line that is not empty is an object with one of "body" (text) and "body_base64", and any of id, headers, content_type,
content_encoding, correlation_id, reply_to, type, app_id, user_id, priority, expiration (ms, as text) and timestamp (RFC 3339). A message
without an id gets a UUIDv7. A header value {"$amqp":[TYPE,VALUE]} is of a type that JSON does not have,
as dead drop and dead show --json write it.

The messages enter the queue in the order of the input. publish stops when one fails, after those that were sent with it (512 at most), and
says how many were confirmed and which may or may not have arrived.`[1:],
		func(ctx context.Context, args []string) error {
			return publish.Run(ctx, a.Streams, o, args[0], args[1:])
		})
	flags := cmd.Flags()
	o.AddBroker(cmd)
	flags.StringVar(&o.Exchange, "exchange", "",
		"publish to `EXCHANGE` with the routing key KEY; if empty, to the queue itself")
	flags.BoolVar(&o.NDJSON, "ndjson", false, "each line is a JSON object")
	flags.StringVar(&o.ContentType, "content-type", "", "`TYPE` of messages that bring none")
	flags.DurationVar(&o.Timeout, "timeout", 30*time.Second,
		"give up when a batch (512 messages at most) is not confirmed within this `TIME`")
	cli.FromEnv(flags, "timeout")
	cli.JSON(flags, &o.JSON, "print one JSON object for each message, with its id")
	return cmd
}
