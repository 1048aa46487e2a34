package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/integration/internal/node"
	"github.com/strikesmq/strikes/integration/internal/worker"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servers"
)

// lab is what all cells share.
type lab struct {
	broker *node.Node
	store  *store
	seed   uint64
	keep   string
}

// store is a Redis, which keeps nothing on disk.
type store struct {
	server *servers.Redis
	client *redis.Client
}

func (s *store) forget(ctx context.Context) error { return s.client.FlushAll(ctx).Err() }

// compare opens the lab, fills the table and prints it.
func compare(ctx context.Context, c config, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() { defer close(watching); worker.EndWithParent(ctx, cancel) }()
	defer func() { cancel(); <-watching }()
	l := &lab{seed: c.seed, keep: c.keep, broker: &node.Node{URL: c.amqp, KillCommand: c.brokerKill,
		StartCommand: c.brokerStart}}
	if c.keep != "" {
		if err := os.Mkdir(c.keep, 0o700); err != nil {
			return err
		}
	}
	if c.amqp == "" {
		r, err := servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{Sbin: c.sbin})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		l.broker = &node.Node{URL: r.URL, Private: r}
	}
	server, err := servers.StartRedis(ctx, servers.RedisOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	opts, err := redis.ParseURL(server.URL)
	if err != nil {
		return err
	}
	l.store = &store{server, redis.NewClient(opts)}
	defer func() { err = errors.Join(err, l.store.client.Close()) }()
	return l.fill(ctx, c, out)
}

// fill runs every cell and prints its row as soon as it is known.
func (l *lab) fill(ctx context.Context, c config, out io.Writer) error {
	version, err := l.version()
	if err != nil {
		return err
	}
	known, _ := broker.ParseVersion(version)
	kinds := rotation
	if l.broker.Private == nil && l.broker.KillCommand == "" {
		kinds = without(rotation, restartBroker)
	}
	head(out, c, version, kinds)
	for _, kind := range c.types {
		for _, name := range c.only {
			w := findWay(name)
			if w.only != "" && w.only != kind || w.from > 0 && known.Before(4, w.from) {
				notApplicable(out, w, kind)
				continue
			}
			began := time.Now()
			cell, err := l.cell(ctx, c, w, kind, kinds)
			if err != nil {
				return fmt.Errorf("%s, %s queue: %w", name, kind, err)
			}
			cell.print(out, c.shown(), w, kind)
			fmt.Fprintf(os.Stderr, "compare: %s, %s: %.0f s\n", name, kind, time.Since(began).Seconds())
		}
	}
	return nil
}

// cell is a row: a way on a type of queue. What was not run is nil.
type cell struct {
	faults, killer, order *verdict
	rates                 *rates
}

func (l *lab) cell(ctx context.Context, c config, w *way, kind string, kinds []string) (all cell, err error) {
	for _, p := range c.runs(kinds) {
		if !slices.Contains(c.parts, p.name) {
			continue
		}
		began := time.Now()
		v, err := l.play(ctx, w, kind, p)
		fmt.Fprintf(os.Stderr, "compare: %s, %s, %s: %.0f s\n", w.name, kind, p.name, time.Since(began).Seconds())
		if err != nil {
			return all, fmt.Errorf("part %s: %w", p.name, err)
		}
		switch p.name {
		case inOrder:
			all.order = &v
		case withKiller:
			all.killer = &v
		case underFaults:
			all.faults = &v
		}
	}
	if slices.Contains(c.parts, speed) {
		r, err := l.measure(ctx, w, kind, 5*c.messages)
		if err != nil {
			return all, fmt.Errorf("part %s: %w", speed, err)
		}
		all.rates = &r
	}
	return all, nil
}

func (l *lab) version() (version string, err error) {
	err = l.broker.OnConnection(func(conn *amqp.Connection) error {
		version, _ = conn.Properties["version"].(string)
		return nil
	})
	return version, err
}
