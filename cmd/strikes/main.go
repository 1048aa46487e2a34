// Command strikes counts the failures of RabbitMQ messages in Redis: it declares queues, publishes to them, runs a command
// for each message of a queue, and shows what was counted. "strikes demo" shows all of it at work.
package main

import (
	"context"
	"os"

	"github.com/redis/go-redis/v9"
)

func main() {
	redis.SetLogger(silent{}) // what it logs comes back as an error as well
	ctx, now := interruptible(context.Background())
	os.Exit(run(ctx, streams{os.Stdin, os.Stdout, os.Stderr, now}, os.Args))
}

// silent is a logger of go-redis.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
