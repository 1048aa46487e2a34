package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/poll"
)

// soak is one run: servers, consumers, a producer, and what goes wrong with them.
type soak struct {
	cfg     config
	history string // its directory
	log     *audit.Log
	broker  *broker
	store   *store
	fleet   *fleet
	link    links // of the producer
	settled *settled
	began   time.Time
	fail    func(error)
}

func runSoak(ctx context.Context, cfg config, history string) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	k := &soak{cfg: cfg, history: history, settled: newSettled(history), began: time.Now(), fail: fail}
	if k.log, err = audit.Append(history, 0); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	k.log.Write(audit.Event{Kind: audit.Setup, Plan: cfg.plan()})
	if err := k.open(ctx); err != nil {
		return err
	}
	if err := k.work(ctx); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	k.say("faults are over and all is published: draining")
	if err := k.drain(ctx); err != nil {
		return err
	}
	if err := k.collectDead(ctx); err != nil {
		return err
	}
	return k.store.examine(ctx, k.log)
}

// open starts what the soak runs on.
func (k *soak) open(ctx context.Context) (err error) {
	if k.store, err = openStore(ctx, k.cfg); err != nil {
		return err
	}
	if k.broker, err = openBroker(ctx, k.cfg); err != nil {
		return err
	}
	if err = k.broker.declare(ctx, k.cfg); err != nil {
		return err
	}
	if k.link, err = newLinks(ctx, k.broker); err != nil {
		return err
	}
	k.fleet, err = newFleet(ctx, k)
	return err
}

// work publishes everything and injects every fault.
func (k *soak) work(ctx context.Context) error {
	all, err := possible(k.cfg, k.broker)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(k.cfg.seed, 1)) //nolint:gosec // to be repeated
	jobs := plan(k.cfg, rnd)
	order, at := schedule(all, k.cfg.faults, k.cfg.messages, rnd)
	k.say("%d messages, %d faults of %d kinds, a %s queue, seed %d", len(jobs), len(order), len(all), k.cfg.kind,
		k.cfg.seed)
	if fault, ok := findStoreFault(k.cfg.storeFaults); ok {
		k.say("the store until the queue is drained: %s", fault.says)
	}
	f := &faults{log: k.log, fleet: k.fleet, broker: k.broker, store: k.store, producer: k.link, say: k.say, rnd: rnd}
	f.start(ctx)
	next := 0
	reach := func(ctx context.Context, n int) error {
		for ; next < len(order) && at[next] <= n; next++ {
			if err := f.offer(ctx, order[next]); err != nil {
				return err
			}
		}
		return k.progress(n)
	}
	p := &producer{jobs: jobs, broker: k.broker, log: k.log, link: k.link, backlog: k.cfg.backlog, reached: reach}
	if k.cfg.backlog == 0 {
		p.reached = func(_ context.Context, n int) error { return nil }
		err = p.run(ctx)
	}
	k.fleet.start(ctx)
	if k.cfg.backlog > 0 {
		err = p.run(ctx)
	} else if err == nil {
		err = k.follow(ctx, reach)
	}
	return errors.Join(err, f.finish())
}

// follow has the faults follow what is settled, where all was published beforehand.
func (k *soak) follow(ctx context.Context, reach func(context.Context, int) error) error {
	return poll.Until(ctx, time.Hour, "the faults", func() error {
		if err := k.settled.update(); err != nil {
			return err
		}
		n := len(k.settled.done)
		if err := reach(ctx, n); err != nil {
			return err
		}
		if left := len(k.settled.confirmed) - n; left > len(k.settled.confirmed)/(k.cfg.faults+1) {
			return fmt.Errorf("%d messages are not settled", left)
		}
		return nil
	})
}

func (k *soak) progress(published int) error {
	if err := k.settled.update(); err != nil {
		return err
	}
	if published%1000 == 0 || published == k.cfg.messages {
		k.say("%d published, %d settled, %d dead-lettered", published, len(k.settled.done), len(k.settled.dead))
	}
	return nil
}

func (k *soak) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(k.began).Seconds(), fmt.Sprintf(format, args...))
}

// close ends everything that was started, in the order that leaves nothing behind.
func (k *soak) close() error {
	var errs []error
	if k.fleet != nil {
		k.fleet.close()
	}
	k.link.Close()
	if k.broker != nil {
		errs = append(errs, k.broker.remove(), k.broker.close())
	}
	if k.store != nil {
		errs = append(errs, k.store.close())
	}
	return errors.Join(append(errs, k.log.Close())...)
}
