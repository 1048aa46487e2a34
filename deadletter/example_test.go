package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
)

// A program that replays what failed for a reason that is mended by now.
func Example() {
	ctx := context.Background()
	dial := func(context.Context) (*amqp.Connection, error) { return amqp.Dial(os.Getenv("AMQP_URL")) }
	counts, err := counter.Dial(os.Getenv("REDIS_URL"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer counts.Close()
	dead := deadletter.Queue{Name: "orders.dlq", Dial: dial, Records: counts.Admin()}
	if dead.Handling, err = handling(ctx, dial, dead.Name); err != nil {
		log.Fatal(err)
	}

	result, err := dead.Replay(ctx, deadletter.Replay{
		Filter: deadletter.Filter{Reason: "no stock"},
		Rate:   50,
	})
	fmt.Println(result.Done, "replayed; in doubt:", result.Undecided)
	if errors.Is(err, deadletter.ErrFailingAgain) {
		log.Fatal("it is not mended: ", result.FailedAgain)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// handling finds out what may be done with a queue.
func handling(ctx context.Context, dial func(context.Context) (*amqp.Connection, error), queue string) (deadletter.Handling, error) {
	conn, err := dial(ctx)
	if err != nil {
		return deadletter.Handling{}, err
	}
	defer conn.Close()
	nature, err := deadletter.Describe(ctx, conn, queue, os.Getenv("STRIKES_MANAGEMENT_URL"), nil)
	return nature.Handling(), err
}

// Why the dead letters of a queue died.
func ExampleQueue_Browse() {
	dead := deadletter.Queue{
		Name:     "orders.dlq",
		Dial:     func(context.Context) (*amqp.Connection, error) { return amqp.Dial(os.Getenv("AMQP_URL")) },
		Handling: deadletter.Nature{Type: "classic"}.Handling(),
	}
	for letter, err := range dead.Browse(context.Background(), deadletter.Filter{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q died in %q: %q\n", letter.ID, letter.Origin.Queue, letter.Reason())
	}
}
