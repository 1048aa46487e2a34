// Package bench compares strikes with what a program can do without it: a bare amqp091-go loop, the broker's own
// delivery limit, a count in a header, a count in Redis by hand.
//
//	go run ./integration/lab bench
//	go run ./integration/lab bench -only success -messages 20000 -rounds 9
//
// It starts a private RabbitMQ and a private Redis, unless -amqp-url or AMQP_URL, -store-url or REDIS_URL name others.
// There it declares queues and keys of its own and removes them; other load on those servers falsifies the result. The
// contestants with DelayAbove need the delay queues there, which strikes declare --delay-queues declares; without it
// they are left out. For private servers it also prints the CPU time of a message. For the cost of a step
// and the memory of a counter in the store, run go test ./counter -bench .
//
// The contestants of a contest get the same messages, prefetch, durability and concurrency, on queues of their own that
// are filled beforehand. They run one after the other in each round, in another order each time. The ratio of two is
// taken within a round, so that other load on the machine weighs on both; the table prints medians. A contestant that
// loses a message, or handles one too often, is an error and no result.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/term"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/publisher"
)

// Run measures, on private servers unless others are named, and prints the result.
func Run(ctx context.Context, args []string) (err error) {
	c, err := parseFlags(args)
	if err != nil {
		return rig.Usage(err)
	}
	b := newBench(c)
	b.progress = showProgress
	if c.amqpURL == "" {
		r, err := servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		b.private = true
		b.amqpURL, b.brokerCPU = r.URL, func() time.Duration { return groupCPU(r.Group()) }
	}
	if c.redisURL == "" {
		r, err := servers.StartRedis(ctx, servers.RedisOptions{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		b.redisURL, b.storeCPU = r.URL, func() time.Duration { return groupCPU(r.Group()) }
	}
	result, err := b.run(ctx)
	showProgress(0, 0, "")
	if err != nil {
		return err
	}
	return result.print(os.Stdout)
}

func newBench(c config) *bench {
	return &bench{config: c, name: "strikes-bench-" + uuid.NewString()[:8], progress: func(int, int, string) {}}
}

func (b *bench) dial(ctx context.Context) (*amqp.Connection, error) {
	return consumer.Dialer(b.amqpURL, amqp.Config{})(ctx)
}

// dialToPublish opens a connection for a publisher of strikes.
func (b *bench) dialToPublish(ctx context.Context) (*amqp.Connection, error) {
	return publisher.BufferedDialer(b.amqpURL, amqp.Config{})(ctx)
}

// showProgress rewrites one line of a terminal; after the last step it clears the line.
func showProgress(done, all int, next string) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	if next != "" {
		fmt.Fprintf(os.Stderr, "%d/%d %s", done, all, next)
	}
}
