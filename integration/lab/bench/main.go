// Package bench compares strikes with what a program can do without it: a bare amqp091-go loop, the broker's own
// delivery limit, a count in a header, a count in Redis by hand.
//
//	go run ./integration/lab bench
//	go run ./integration/lab bench -only success -messages 20000 -rounds 9
//
// It starts a private RabbitMQ, unless -amqp-url or AMQP_URL names another, and always a private Redis. On another
// RabbitMQ it declares queues of its own and removes them; other load there falsifies the result. The contestants with
// DelayAbove need the delay queues there, which strikes declare --delay-queues declares; without it they are left out.
// On a private one it also prints the CPU time of a message. For the cost of a step and the memory of a counter in the
// store, run go test ./counter -bench .
//
// The contestants of a contest get the same messages, prefetch, durability and concurrency, on queues of their own that
// are filled beforehand. They run one after the other in each round, in another order each time. The ratio of two is
// taken within a round, so that other load on the machine weighs on both; the table prints medians. A contestant that
// loses a message, or handles one too often, is an error and no result.
package bench

import (
	"context"
	"fmt"
	"os"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/term"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/publisher"
)

// Run measures, and prints the result.
func Run(ctx context.Context, args []string) error {
	c, err := parseFlags(args)
	if err != nil {
		return rig.Usage(err)
	}
	b := newBench(c)
	b.progress = showProgress
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
	return consumer.Dialer(b.broker.URL, amqp.Config{})(ctx)
}

// dialToPublish opens a connection for a publisher of strikes.
func (b *bench) dialToPublish(ctx context.Context) (*amqp.Connection, error) {
	return publisher.BufferedDialer(b.broker.URL, amqp.Config{})(ctx)
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
