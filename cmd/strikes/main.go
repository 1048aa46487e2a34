// Command strikes counts the failures of RabbitMQ messages in Redis or a database. It declares queues, publishes to
// them, runs a command for each message of a queue, and shows the counts. "strikes demo" shows all of it at work.
package main

import (
	"context"
	"os"

	"github.com/redis/go-redis/v9/logging"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

func main() {
	logging.Disable() // of go-redis: it logs errors that it returns as well
	ctx, now := cli.Interruptible(context.Background())
	os.Exit(run(ctx, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: now}, os.Args))
}
