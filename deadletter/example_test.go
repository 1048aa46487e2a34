package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
)

// This program lists why the dead letters of a queue died, and replays those whose cause is fixed.
func Example() {
	ctx := context.Background()
	store, err := counter.Dial(os.Getenv("REDIS_URL"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	dead, err := deadletter.Open(ctx, deadletter.Queue{
		Name:    "orders.dlq",
		Dial:    consumer.Dialer(os.Getenv("AMQP_URL"), amqp.Config{}),
		Records: store.Admin(),
	}, deadletter.Management{URL: os.Getenv("STRIKES_MANAGEMENT_URL")})
	if err != nil {
		log.Fatal(err)
	}

	fixed := deadletter.Filter{Reason: "no stock"}
	for m, err := range dead.Browse(ctx, fixed) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q died in %q: %q\n", m.Name(), m.Origin.Queue, m.Reason())
	}
	result, err := dead.Replay(ctx, deadletter.Replay{Filter: fixed, Rate: 50})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Done, "replayed")
}

// Browse holds the messages of the queue until the iteration ends, so the loop only counts.
func ExampleQueue_Browse() {
	dead := deadletter.Queue{
		Name:     "orders.dlq", // a classic queue: reading it is harmless
		Dial:     consumer.Dialer(os.Getenv("AMQP_URL"), amqp.Config{}),
		Handling: deadletter.Handling{Take: true, Hold: true, InPlace: true},
	}
	causes := map[deadletter.Kind]int{}
	for m, err := range dead.Browse(context.Background(), deadletter.Filter{Queue: "orders"}) {
		if err != nil {
			log.Fatal(err)
		}
		causes[m.Kind()]++
	}
	fmt.Println(causes)
}

// A replay stops when the messages fail again. It may be repeated after any error.
func ExampleQueue_Replay() {
	dead := deadletter.Queue{
		Name:     "orders.dlq", // a classic queue: reading it is harmless
		Dial:     consumer.Dialer(os.Getenv("AMQP_URL"), amqp.Config{}),
		Handling: deadletter.Handling{Take: true, Hold: true, InPlace: true},
	}
	result, err := dead.Replay(context.Background(), deadletter.Replay{Window: 16, StopAfter: 3})
	fmt.Printf("replayed %d, left %d, may be published or not: %q\n", result.Done, result.Left, result.Undecided)
	switch {
	case errors.Is(err, deadletter.ErrFailingAgain):
		log.Fatalf("the cause is not fixed: %q failed again", result.FailedAgain)
	case err != nil:
		log.Fatal(err)
	}
}
