package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/publisher"
)

// bench is what the contestants of all rounds share.
type bench struct {
	config
	name     string // begins the names of all queues
	progress func(done, all int, next string)

	broker *rig.Broker
	store  *rig.Store
	admin  *amqp.Connection     // declares, counts and deletes
	fill   *publisher.Publisher // fills the queues
	counts *counter.Counter

	databases map[string]*database // those in use

	binary      string // of strikes; empty: not built
	queues      int    // named so far
	steps, done int    // of the progress
}

// run measures, and removes what it made, also if ctx ends it.
func (b *bench) run(ctx context.Context) (_ *result, err error) {
	began := time.Now()
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	all, err := b.playable(ctx)
	if err != nil {
		return nil, err
	}
	b.steps = (b.rounds + 1) * len(all)
	if err := b.play(ctx, all, began.Add(b.time)); err != nil {
		return nil, err
	}
	r := b.result(all)
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

// playable lists the cases. All queues of a virtual host share its delay queues, so only a private broker gets one.
func (b *bench) playable(ctx context.Context) ([]*Case, error) {
	all := cases(b.config)
	if b.broker.Private != nil {
		return all, nil
	}
	found, wrong, _, err := broker.BucketsOf(ctx, b.admin)
	if err != nil {
		return nil, fmt.Errorf("looking for the delay queues: %w", err)
	}
	if found != broker.Yes || len(wrong) > 0 {
		all = slices.DeleteFunc(all, func(c *Case) bool { return c.spec.DelayQueues })
	}
	return all, nil
}

// play runs every case once a round, each time beginning with another. Of several rounds, the first warms up.
// No round begins after until, except the first that counts.
func (b *bench) play(ctx context.Context, all []*Case, until time.Time) error {
	warmUp := min(b.rounds-1, 1)
	for round := range b.rounds + warmUp {
		n := b.messages
		if round < warmUp {
			n = max(n/4, 100)
		}
		if round > warmUp && time.Now().After(until) {
			return nil
		}
		for i := range all {
			c := all[(i+round*7)%len(all)]
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

// sampleTimeout is for one contestant in one round. It is far beyond what any takes: something hangs.
const sampleTimeout = 2 * time.Minute

func (b *bench) sample(ctx context.Context, c *Case, n int) (sample, error) {
	b.step(c.String())
	runtime.GC() // of the garbage of the previous contestant
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	return c.measure(ctx, b, c, n)
}

func (b *bench) open(ctx context.Context) (err error) {
	if b.store, err = rig.OpenStore(ctx); err != nil {
		return err
	}
	if b.broker, err = rig.OpenBroker(ctx, rig.Options{AMQP: b.amqpURL}); err != nil {
		return err
	}
	if b.counts, err = counter.Dial(b.store.URL, nil); err != nil {
		return err
	}
	if b.admin, err = b.dial(ctx); err != nil {
		return fmt.Errorf("connecting to the broker: %w", err)
	}
	b.fill, err = publisher.New(b.dial, nil) //nolint:contextcheck // Close ends it
	return err
}

// step reports the next one.
func (b *bench) step(what string) {
	b.progress(b.done, b.steps, what)
	b.done++
}

// queueName returns a name that was not used before.
func (b *bench) queueName() string {
	b.queues++
	return b.name + "-" + strconv.Itoa(b.queues)
}

func (b *bench) close() error {
	var errs []error
	if b.binary != "" {
		errs = append(errs, os.RemoveAll(filepath.Dir(b.binary)))
	}
	if b.fill != nil {
		errs = append(errs, b.fill.Close())
	}
	if b.admin != nil {
		errs = append(errs, closeConnection(b.admin))
	}
	for _, d := range b.databases {
		errs = append(errs, d.counts.Close(), d.Close())
	}
	if b.counts != nil {
		errs = append(errs, b.counts.Close())
	}
	if b.broker != nil {
		errs = append(errs, b.broker.Close())
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	return errors.Join(errs...)
}

// closeConnection closes an idle connection.
func closeConnection(conn *amqp.Connection) error {
	err := conn.CloseDeadline(time.Now().Add(10 * time.Second))
	if errors.Is(err, amqp.ErrClosed) {
		return nil
	}
	return err
}
