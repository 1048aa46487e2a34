package main

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/poll"
)

// A dead letter arrives immediately, or, where the nodes of a cluster had moved its queue, when the broker
// tries again: after three minutes.
const (
	arrival        = 30 * time.Second
	clusterArrival = 4 * time.Minute
)

// collectDead reads the dead-letter queue until everything is there that was sent to it.
func (k *soak) collectDead(ctx context.Context) error {
	if err := k.settled.update(); err != nil {
		return err
	}
	within := arrival
	if k.cfg.cluster {
		within = clusterArrival
	}
	found := map[string]bool{}
	err := poll.Until(ctx, within, "the dead letters", func() error {
		if err := k.collect(found); err != nil {
			return err
		}
		missing := 0
		for id := range k.settled.dead {
			if !found[id] {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d dead letters have not arrived", missing)
		}
		return nil
	})
	if err != nil {
		k.say("%v", err) // some may have been acked after all; the audit knows
	}
	return ctx.Err()
}

// collect empties the dead-letter queue.
func (k *soak) collect(found map[string]bool) error {
	for empty := false; !empty; {
		err := k.broker.nodes[0].OnChannel(func(ch *amqp.Channel) (err error) {
			empty, err = k.take(ch, found)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// handful is how many dead letters are taken on one connection, which is open for a bounded time.
const handful = 500

func (k *soak) take(ch *amqp.Channel, found map[string]bool) (empty bool, err error) {
	for range handful {
		d, ok, err := ch.Get(deadLetters, true)
		if err != nil || !ok {
			return true, err
		}
		found[d.MessageId] = true
		k.log.Write(audit.Event{Kind: audit.Dead, ID: d.MessageId, Outcome: reasonOf(d.Headers)})
	}
	return false, nil
}

// reasonOf is why the broker dead-lettered a message.
func reasonOf(headers amqp.Table) string {
	deaths, _ := headers["x-death"].([]any)
	for _, entry := range deaths {
		if death, ok := entry.(amqp.Table); ok && death["queue"] == queue {
			reason, _ := death["reason"].(string)
			return reason
		}
	}
	return "not told"
}
