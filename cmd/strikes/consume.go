package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/runner"
	"github.com/strikesmq/strikes/consumer"
)

func (a *app) consumeCommand() *cobra.Command {
	var o runner.Options
	cmd := cli.New("consume QUEUE [flags] -- CMD [ARGS…]",
		"run a command for each message of a queue, or post it to a URL, and retry those that fail", `
CMD gets the body on its stdin. Exit code 0: done; 65: dead-letter the message now; anything else: a failure, and the end of CMD's stderr is
kept as its reason. CMD's environment has STRIKES_ATTEMPT (1, 2, …), STRIKES_LAST (the number of the last attempt), STRIKES_MESSAGE_ID,
STRIKES_QUEUE, STRIKES_EXCHANGE, STRIKES_ROUTING_KEY, STRIKES_CONTENT_TYPE, STRIKES_REDELIVERED (true, false), STRIKES_TOKEN (unique to the
attempt) and STRIKES_FENCE (see consumer.Attempt.Fence).
CMD does not inherit STRIKES_AMQP_URL, STRIKES_REDIS_URL and STRIKES_MANAGEMENT_URL, which may hold passwords. It inherits AMQP_URL and
REDIS_URL, because it may need them.

What CMD prints is passed on, but with --json its stdout goes to stderr. What CMD leaves running in its process group is killed.

With --http URL instead of CMD each message is a POST: 2xx: done; 409, 410, 422: dead-letter the message now; 429, 503, or no connection:
not counted, and held for Retry-After (5m at most) or the backoff; 502, or a connection that ends before the response: held likewise, and
the next attempt is isolated, because the message may have killed the endpoint's process; in an isolated attempt this is a crash; any other
status: a failure, and the first KiB of the response is kept as its reason. Redirects are not followed. The request's headers are in docs/push.md.

`[1:]+decisionMeanings+`

consume refuses to start (exit 2) on a queue whose failed messages would be lost or lose their position. Once started, it survives outages
of broker and store. SIGINT and SIGTERM let the commands or requests that run finish: exit 0 if everything was settled. A second signal,
0.2 s later or more, kills them; their attempts are not counted.`,
		func(ctx context.Context, args []string) error {
			return runner.Run(ctx, a.Streams, o, args[0], args[1:])
		})
	addConsumeFlags(cmd, &o)
	return cmd
}

func addConsumeFlags(cmd *cobra.Command, o *runner.Options) {
	f := cmd.Flags()
	f.StringVar(&o.HTTP, "http", "",
		"post each message to this `URL` instead of running a command; http[s]://user:password@host:port/path")
	f.StringVar(&o.HTTPToken, "http-token-file", "",
		"with --http: send the bearer token in this `FILE`, which is read for each message")
	f.StringVar(&o.HTTPCA, "http-ca", "", "with --http: trust the authorities in this `FILE` (PEM), not those of "+
		"the system")
	f.StringVar(&o.HTTPCert, "http-cert", "", "with --http: the client's certificate, in a `FILE` (PEM)")
	f.StringVar(&o.HTTPKey, "http-key", "", "with --http: the key of --http-cert, in a `FILE` (PEM)")
	o.AddBroker(cmd)
	o.AddStore(cmd)
	o.AddManagement(cmd, "to check what AMQP cannot report")
	f.IntVar(&o.MaxRetries, "max-retries", consumer.DefaultMaxRetries,
		"retry a message `N` times after its first failure, then dead-letter it")
	cli.Age(f, &o.MaxAge, "max-age", "dead-letter a message that fails later than `TIME` after its first failed "+
		"attempt, whatever its count; --max-retries applies too, whichever comes first: to retry for 36h, raise it (1000 "+
		"at most); 0: no limit")
	f.IntVar(&o.Concurrency, "concurrency", 1, "run `N` commands, or requests, at the same time")
	f.IntVar(&o.Prefetch, "prefetch", 0, "hold `N` unacked messages at most; 0: twice the concurrency, 10 at least; "+
		"with --ordered 30 at least, or 1 if --retry is requeue")
	f.BoolVar(&o.Ordered, "ordered", false, "handle no message before the one ahead of it is done; the queue must be a "+
		"single-active-consumer queue")
	f.StringVar(&o.LaneHeader, "lane-header", "", "with --ordered: messages with the same value of the header `NAME` "+
		"are one lane, and keep their order; up to --concurrency lanes run at once")
	f.BoolVar(&o.HoldLanes, "hold-lanes", false, "with --lane-header: dead-letter the later messages of a lane too, "+
		"without an attempt, once one of it is dead-lettered; strikes lane replays them in order. With --ordered alone: "+
		"pause the queue instead of dead-lettering a message; limit set --id, counter reset or skip of it ends the pause")
	f.BoolVar(&o.AckEach, "ack-each", false, "ack each message as soon as it is handled, not several within about 1ms")
	f.StringVar(&o.Backoff, "backoff", runner.DefaultBackoff,
		"wait before a retry: `WAIT` is a time, or two with .. between, doubled from the first to the second")
	f.DurationVar(&o.DelayAbove, "delay-above", 0, "move a message that must wait longer than `TIME` for its retry to "+
		"the queues of declare --delay-queues: 1m to half of --consumer-timeout (15m by default); 0: 1m if they exist; "+
		"negative: never")
	f.StringVar(&o.Retry, "retry", "", "`WHERE` a failed message waits: requeue (it returns to its original position; "+
		"the default) or in-place (this process keeps it; the default with --ordered)")
	f.StringVar(&o.Isolation, "isolation", "suspects",
		"run messages isolated that may have killed a consumer: `WHICH` is suspects or off")
	f.DurationVar(&o.HandlerTimeout, "handler-timeout", consumer.DefaultHandlerTimeout,
		"end a command or request after this `TIME` and count a failure; 0: never")
	f.DurationVar(&o.DrainTimeout, "drain-timeout", consumer.DefaultDrainTimeout,
		"let commands and requests finish for this `TIME` once stopped; 0: not at all")
	f.DurationVar(&o.ConsumerTimeout, "consumer-timeout", consumer.DefaultConsumerTimeout,
		"the broker's consumer_timeout, as `TIME`; no message is held for more than half of it")
	f.DurationVar(&o.ExitWhenIdle, "exit-when-idle", 0,
		"exit 0 once the queue is empty and nothing was to do for this `TIME`, also no wait for a retry; 0: never")
	f.StringVar(&o.HealthAddr, "health-addr", "", "answer probes at this `ADDRESS`: /live always, /ready while messages "+
		"are consumed, which a pause ends")
	f.BoolVar(&o.AllowDrop, "allow-drop", false, "accept a queue whose dead letters are lost")
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "report every decision on stderr, not only what went wrong")
	cli.JSON(f, &o.JSON, "print every decision on stdout, one JSON object a line")
	cli.FromEnv(f, "http", "http-token-file", "http-ca", "http-cert", "http-key", "max-retries", "max-age", "concurrency",
		"prefetch", "ordered", "lane-header", "hold-lanes", "ack-each", "backoff", "delay-above", "retry", "isolation",
		"handler-timeout", "drain-timeout", "consumer-timeout", "health-addr", "exit-when-idle", "allow-drop")
	cli.InsteadOfCommand(cmd, "http")
	cli.OneOf(cmd, "retry", "requeue", "in-place")
	cli.OneOf(cmd, "isolation", "suspects", "off")
}
