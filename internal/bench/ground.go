package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/publisher"
)

// cleanUp bounds the removal of the keys, of which there may be millions.
const cleanUp = time.Minute

// ground is what the contestants of all rounds share.
type ground struct {
	Options
	admin  *amqp.Connection     // declares, looks and deletes
	fill   *publisher.Publisher // fills the queues
	plain  *redis.Client        // as a program that counts by hand would have it
	counts *counter.Counter

	version string // of the store
	queues  int    // named so far
	steps   int    // to come, all in all
	done    int    // of them
}

func newGround(ctx context.Context, o Options) (g *ground, err error) {
	g = &ground{Options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.closeConnections())
		}
	}()
	opts, err := redis.ParseURL(o.RedisURL)
	if err != nil {
		return g, errors.New("bench: the store's URL is not one of a single Redis: it is redis://, rediss:// or unix://") // what the parser says quotes it
	}
	if g.counts, err = counter.Dial(o.RedisURL, &counter.Options{Prefix: o.Name}); err != nil {
		return g, err
	}
	opts.MaxRetries = -1 // for a count by hand: a client that repeats a lost INCR counts twice
	g.plain = redis.NewClient(opts)
	if g.version, err = g.info(ctx, "Server", "redis_version"); err != nil {
		return g, err
	}
	if g.admin, err = o.Dial(ctx); err != nil {
		return g, err
	}
	g.fill, err = publisher.New(o.Dial, nil) //nolint:contextcheck // Close ends it
	return g, err
}

// info reads one field of what the store says of itself.
func (g *ground) info(ctx context.Context, section, field string) (string, error) {
	all, err := g.plain.InfoMap(ctx, section).Result()
	if err != nil {
		return "", fmt.Errorf("bench: asking the store about its %s: %w", field, err)
	}
	return all[section][field], nil
}

// expect says how many steps there will be.
func (g *ground) expect(steps int) { g.steps = steps }

// step begins the next one.
func (g *ground) step(what string) {
	g.Progress(g.done, g.steps, what)
	g.done++
}

// queueName is a name that was not used before.
func (g *ground) queueName() string {
	g.queues++
	return g.Name + "-" + strconv.Itoa(g.queues)
}

func (g *ground) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	return errors.Join(g.removeKeys(ctx), g.closeConnections())
}

func (g *ground) removeKeys(ctx context.Context) error {
	var keys []string
	remove := func() error {
		if len(keys) == 0 {
			return nil
		}
		err := g.plain.Unlink(ctx, keys...).Err()
		keys = keys[:0]
		return err
	}
	scan := g.plain.Scan(ctx, 0, g.Name+":*", 10_000).Iterator()
	for scan.Next(ctx) {
		if keys = append(keys, scan.Val()); len(keys) == 10_000 {
			if err := remove(); err != nil {
				return fmt.Errorf("bench: removing the keys %s:*: %w", g.Name, err)
			}
		}
	}
	if err := errors.Join(scan.Err(), remove()); err != nil {
		return fmt.Errorf("bench: removing the keys %s:*: %w", g.Name, err)
	}
	return nil
}

func (g *ground) closeConnections() error {
	var errs []error
	if g.fill != nil {
		errs = append(errs, g.fill.Close())
	}
	if g.admin != nil {
		errs = append(errs, closeConnection(g.admin))
	}
	if g.counts != nil {
		errs = append(errs, g.counts.Close())
	}
	if g.plain != nil {
		errs = append(errs, g.plain.Close())
	}
	return errors.Join(errs...)
}

// closeConnection ends a connection on which nothing is under way any more.
func closeConnection(conn *amqp.Connection) error {
	err := conn.CloseDeadline(time.Now().Add(10 * time.Second))
	if errors.Is(err, amqp.ErrClosed) {
		return nil
	}
	return err
}
