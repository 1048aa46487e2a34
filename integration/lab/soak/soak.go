// Package soak runs consumer processes through faults and checks, from their histories, that the guarantees held:
//
//	go run ./integration/lab soak -messages 20000 -faults 24 -type quorum
//
// It publishes messages whose handlers succeed, fail, panic, hang, or kill their process. Meanwhile it kills, stops and
// freezes the processes, cuts and delays their connections, and kills, pauses and empties the servers. Then it lets the
// queue drain and checks the end of each message.
//
// It starts a RabbitMQ, unless -amqp names one, and a Redis, PostgreSQL or MariaDB.
//
// Progress goes to standard error. The last line on standard output is one JSON object with the figures and, for each
// rule, the number of violations and an example. The exit status is 1 if there is any, or if the soak failed.
package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/faults"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/topology"
)

const (
	queue       = "soak"
	deadLetters = queue + ".dlq"
)

// arrival is how long a dead letter may be on its way.
const arrival = 30 * time.Second

// Run runs the soak and prints the report. It returns an error if a rule was violated, and leaves the history then. If
// this process was started as a consumer, it becomes one.
func Run(ctx context.Context, args []string) error {
	fleet.Main(runWorker)
	cfg, err := parseFlags(args)
	if err != nil {
		return err
	}
	began := time.Now()
	history, err := os.MkdirTemp("", "strikes-soak-")
	if err != nil {
		return err
	}
	found, err := judged(ctx, cfg, history)
	if err != nil {
		return errors.Join(err, os.RemoveAll(history))
	}
	found.Seconds, found.Type, found.Seed = seconds(time.Since(began)), cfg.kind, cfg.seed
	err = json.NewEncoder(os.Stdout).Encode(found)
	if broken := found.Broken(); len(broken) > 0 {
		return fmt.Errorf("violated: %s\nthe history of the run is in %s", strings.Join(broken, "\n"), history)
	}
	return errors.Join(err, os.RemoveAll(history))
}

// judged runs a soak, and judges the history that it leaves in a directory.
func judged(ctx context.Context, cfg config, history string) (*report, error) {
	if err := runSoak(ctx, cfg, history); err != nil {
		return nil, err
	}
	events, err := ledger.Read(history)
	return check(cfg, events), err
}

// soak is one run: servers, consumers, a producer, and their faults.
type soak struct {
	cfg     config
	history string // its directory
	log     *ledger.Log
	broker  *rig.Broker
	store   *rig.Store

	dependency *rig.Dependency // that handlers call; nil: they call none

	fleet    *fleet.Fleet
	link     *proxy.Proxy // of the producer
	progress *ledger.Progress
	found    map[string]bool // ids in the dead-letter queue
	began    time.Time
	fail     func(error)

	pushers []*pusher
}

func runSoak(ctx context.Context, cfg config, history string) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	k := &soak{cfg: cfg, history: history, progress: ledger.NewProgress(history), found: map[string]bool{},
		began: time.Now(), fail: fail, fleet: &fleet.Fleet{Fail: fail}}
	if k.log, err = ledger.Append(history, 0); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
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
	return k.collectDead(ctx)
}

// open starts the servers of the soak.
func (k *soak) open(ctx context.Context) (err error) {
	if k.store, err = rig.OpenStore(ctx, k.cfg.store); err != nil {
		return err
	}
	if k.broker, err = rig.OpenBroker(ctx, k.cfg.broker); err != nil {
		return err
	}
	if err := k.broker.Declare(ctx, topology.Spec{Queue: queue, Type: topology.Type(k.cfg.kind),
		SingleActiveConsumer: k.cfg.ordered}); err != nil {
		return err
	}
	if k.link, err = k.broker.NewProxy(ctx); err != nil {
		return err
	}
	if k.cfg.outage > 0 {
		if k.dependency, err = rig.OpenDependency(ctx); err != nil {
			return err
		}
	}
	return k.seat(ctx)
}

// work publishes everything and injects every fault.
func (k *soak) work(ctx context.Context) error {
	all, err := k.possible()
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(k.cfg.seed, 1)) //nolint:gosec // to be repeated
	jobs := plan(k.cfg, rnd)
	due := faults.Schedule(all, k.cfg.faults, k.cfg.messages, k.cfg.processes, rnd)
	k.say("%d messages, %d faults of %d kinds, a %s queue, seed %d", len(jobs), len(due), len(all), k.cfg.kind, k.cfg.seed)
	in := &faults.Injector{Log: k.log, Fleet: k.fleet, Broker: k.broker, Queues: []string{queue, deadLetters},
		Store: k.store, Dependency: k.dependency, Producer: k.link, Say: k.say, Rnd: rnd}
	in.Start(ctx)
	reach := func(n int) error {
		for ; len(due) > 0 && due[0].At <= n; due = due[1:] {
			if err := in.Offer(due[0]); err != nil {
				return err
			}
		}
		err := k.progress.Update()
		if n%1000 == 0 || n == k.cfg.messages {
			k.say("%d published, %d settled, %d dead-lettered", n, len(k.progress.Done), len(k.progress.Dead))
		}
		return err
	}
	p := &producer{jobs: jobs, broker: k.broker, log: k.log, link: k.link, backlog: k.cfg.backlog, reached: reach}
	if k.cfg.backlog == 0 {
		p.reached = func(int) error { return nil }
		err = p.run(ctx)
	}
	k.fleet.Start(ctx)
	if k.cfg.backlog > 0 {
		err = p.run(ctx)
	} else if err == nil {
		err = k.follow(ctx, reach)
	}
	return errors.Join(err, in.Finish())
}

// follow has the faults follow the number of messages that are done, where all were published beforehand.
func (k *soak) follow(ctx context.Context, reach func(int) error) error {
	return poll.Until(ctx, time.Hour, "the faults", func() error {
		if err := k.progress.Update(); err != nil {
			return err
		}
		n := len(k.progress.Done)
		if err := reach(n); err != nil {
			return err
		}
		if left := len(k.progress.Confirmed) - n; left > len(k.progress.Confirmed)/(k.cfg.faults+1) {
			return fmt.Errorf("%d messages are not settled", left)
		}
		return nil
	})
}

func (k *soak) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(k.began).Seconds(), fmt.Sprintf(format, args...))
}

// drain waits until every message is done and the queue is empty, and stops the consumers. If that takes too long, it
// writes Undrained, which the rules judge.
func (k *soak) drain(ctx context.Context) error {
	k.log.Write(audit.Event{Kind: audit.Quiet})
	ready := func() (int, error) { return k.broker.Returned(ctx, queue) }
	if err := k.fleet.Drain(ctx, k.cfg.drainWithin(), k.drained, ready); err != nil {
		k.log.Write(audit.Event{Kind: audit.Undrained, Err: err.Error()})
		return context.Cause(ctx)
	}
	k.log.Write(audit.Event{Kind: audit.Drained})
	return nil
}

func (k *soak) drained() error {
	if err := k.takeDead(); err != nil {
		return err
	}
	n, err := k.broker.Depth(queue)
	if err != nil {
		return err
	}
	if open := k.progress.Open(); n > 0 || open > 0 {
		return fmt.Errorf("%d messages are ready, %d confirmed ones not settled", n, open)
	}
	return nil
}

// takeDead writes down the messages that the dead-letter queue has ready, and takes them out.
func (k *soak) takeDead() error {
	err := k.broker.Drain(deadLetters, func(d *amqp.Delivery) {
		k.found[d.MessageId] = true
		k.log.Write(audit.Event{Kind: audit.Dead, ID: d.MessageId, Outcome: reasonOf(d.Headers)})
	})
	return errors.Join(err, k.progress.Update())
}

// collectDead reads the dead-letter queue until everything is there that was sent to it.
func (k *soak) collectDead(ctx context.Context) error {
	err := poll.Until(ctx, arrival, "the dead letters", func() error {
		if err := k.takeDead(); err != nil {
			return err
		}
		missing := 0
		for id := range k.progress.Dead {
			if !k.found[id] {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d dead letters have not arrived", missing)
		}
		return nil
	})
	if err != nil {
		k.say("%v", err) // some may have been acked after all; the rules know
	}
	return context.Cause(ctx)
}

// reasonOf is why the broker dead-lettered a message.
func reasonOf(headers amqp.Table) string {
	for _, d := range broker.Deaths(headers) {
		if d.Queue == queue {
			return d.Reason
		}
	}
	return "not told"
}

// close ends everything that was started, in the order that leaves nothing behind.
func (k *soak) close() error {
	k.fleet.Close()
	for _, p := range k.pushers {
		p.endpoint.Close()
	}
	k.link.Close()
	return errors.Join(k.broker.Close(), k.store.Close(), k.dependency.Close(), k.log.Close())
}
