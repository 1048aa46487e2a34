// Package bench compares strikes with its alternatives: a bare amqp091-go loop, the broker's own delivery limit, a
// count in a header, a count in Redis by hand.
//
//	go run ./integration/lab bench
//	go run ./integration/lab bench -only success -messages 20000 -rounds 9
//
// It starts a private RabbitMQ and a private Redis, and prints the CPU time of a message too. For the cost of a step
// and the memory of a counter in the store, run go test ./counter -bench . The benchmarks of package publisher compare
// a Publisher with a bare client.
//
// The contestants of a contest get the same messages, prefetch, durability and concurrency, on queues of their own that
// are filled beforehand. They run one after the other in each round, in another order each time. The ratio of two is
// taken within a round, so that other load on the machine weighs on both; the table prints medians. A contestant that
// loses a message, or handles one too often, is an error and no result.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/topology"
)

// All contestants have these settings in common.
const (
	prefetch    = 100
	bodySize    = 256 // bytes
	retries     = 3
	concurrency = 8 // handlers in parallel where messages fail
)

// config has the values of the flags.
type config struct {
	only, types      []string
	failing          []int // percent
	messages, rounds int
	time             time.Duration
}

func parseFlags(args []string) (config, error) {
	kinds := []string{string(topology.Classic), string(topology.Quorum)}
	c := config{only: contests[:len(contests)-1], types: kinds, failing: []int{0, 1, 10}}
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	rig.List(f, &c.only, "only", "the contests; if not given, all but the last", contests...)
	rig.List(f, &c.types, "type", "of the queues", kinds...)
	f.Func("failing", "of the messages, `PERCENT,…` (default 0,1,10)", func(text string) error {
		if json.Unmarshal([]byte("["+text+"]"), &c.failing) != nil {
			return errors.New("want percentages, such as 0,1,10")
		}
		return nil
	})
	f.IntVar(&c.messages, "messages", 3000, "`NUMBER` in each queue")
	f.IntVar(&c.rounds, "rounds", 5, "`NUMBER` that count; one before them warms up")
	f.DurationVar(&c.time, "time", 2*time.Minute, "`LIMIT` of the whole bench, about: it does fewer rounds to keep it")
	if err := rig.Parse(f, args); err != nil {
		return c, err
	}
	if c.messages < 100 || c.rounds < 1 || c.time <= 0 {
		return c, errors.New("-messages must be 100 at least, -rounds 1 at least, and -time positive")
	}
	if len(c.failing) == 0 || slices.Min(c.failing) < 0 || slices.Max(c.failing) > 100 {
		return c, fmt.Errorf("-failing is %d, must be percentages of 0 to 100", c.failing)
	}
	return c, nil
}

// bench has the servers and settings that the contestants of all rounds share.
type bench struct {
	config
	broker    *rig.Broker
	store     *rig.Store
	counts    *counter.Counter
	databases map[string]*database // those in use
	queues    int                  // named so far
}

// Run measures, and prints the result.
func Run(ctx context.Context, args []string) (err error) {
	c, err := parseFlags(args)
	if err != nil {
		return err
	}
	b := &bench{config: c}
	defer func() { err = errors.Join(err, b.close()) }()
	all := cases(c)
	if err := b.run(ctx, all); err != nil {
		return err
	}
	return b.print(os.Stdout, all)
}

// run runs every case once a round, each time beginning with another. Of several rounds, the first warms up. No round
// begins when the time is over, except the first that counts.
func (b *bench) run(ctx context.Context, all []*Case) (err error) {
	until := time.Now().Add(b.time)
	b.databases = map[string]*database{}
	if b.store, err = rig.OpenStore(ctx, rig.Redis); err != nil {
		return err
	}
	if b.broker, err = rig.OpenBroker(ctx, rig.Options{}); err != nil {
		return err
	}
	if b.counts, err = counter.Dial(b.store.URL, nil); err != nil {
		return err
	}
	warmUp := min(b.rounds-1, 1)
	for round := range b.rounds + warmUp {
		if round > warmUp && time.Now().After(until) {
			return nil
		}
		fmt.Fprintf(os.Stderr, "bench: round %d of %d at most\n", round+1, b.rounds+warmUp)
		for i := range all {
			c := all[(i+round*7)%len(all)]
			n := b.messages
			if round < warmUp {
				n = max(n/4, 100)
			}
			s, err := b.sample(ctx, c, n)
			if err != nil {
				return fmt.Errorf("%s: %w", c, err)
			}
			if round >= warmUp {
				c.add(s)
			}
		}
	}
	return nil
}

// sampleTimeout is for one contestant in one round. None takes nearly as long, so after it something hangs.
const sampleTimeout = 2 * time.Minute

// sample has a contestant work through n messages, on a queue of its own.
func (b *bench) sample(ctx context.Context, c *Case, n int) (_ sample, err error) {
	runtime.GC() // of the garbage of the previous contestant
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	t, err := b.newTrial(ctx, c, n)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, b.broker.Delete(t.spec.Queue)) }()
	return t.measure(ctx, c.loop)
}

func (b *bench) close() error {
	var errs []error
	for _, d := range b.databases {
		errs = append(errs, d.counts.Close(), d.Close())
	}
	if b.counts != nil {
		errs = append(errs, b.counts.Close())
	}
	return errors.Join(append(errs, b.broker.Close(), b.store.Close())...)
}
