package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// evidence is read from the broker and the store once all consumers have ended.
type evidence struct {
	left    int      // messages in the queue
	dead    []string // dead letters
	counted []string // records
	acked   int      // orders, as the consumers say
}

// gather collects the evidence. The consumers have ended, so their unacked messages are back in the queue.
func (d *demo) gather(ctx context.Context) (e evidence, err error) {
	for _, o := range d.orders {
		records, err := d.store.Admin().Get(ctx, d.broker.VHost, d.queue, o.ID)
		if err != nil {
			return e, err
		}
		for _, r := range records {
			if r.Failures+r.Crashes > 0 {
				e.counted = append(e.counted, countedLine(r.ID, ops.StateOf(r), r.Failures, r.Crashes))
			}
		}
	}
	queue := broker.DeadLetterQueueFor(d.queue)
	err = d.broker.With(ctx, func(conn *amqp.Connection) error {
		return broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
			// a dead letter that takes longer from one queue to the other is for the proof
			_ = poll.Until(ctx, 5*time.Second, "the dead letter", func() error {
				q, err := broker.Passive(ch, queue)
				if err == nil && q.Messages == 0 {
					err = errors.New("none")
				}
				return err
			})
			q, err := broker.Passive(ch, d.queue)
			if err != nil {
				return err
			}
			e.left = q.Messages
			e.dead, err = deadLines(ch, queue)
			return err
		})
	})
	return e, err
}

// deadLines is a line for each message of a dead-letter queue. They stay in it: the broker requeues them when the
// channel is closed.
func deadLines(ch *amqp.Channel, queue string) (all []string, err error) {
	for {
		d, ok, err := ch.Get(queue, false)
		if err != nil || !ok {
			return all, err
		}
		line := term.Shown(d.MessageId)
		if deaths := broker.Deaths(d.Headers); len(deaths) > 0 {
			line = deadLine(d.MessageId, deaths[0].Reason, deaths[0].Queue)
		}
		all = append(all, line)
	}
}

func deadLine(id, reason, from string) string {
	return fmt.Sprintf("%s %s from %s", term.Shown(id), term.Printable(reason, ""), term.Shown(from))
}

func countedLine(id string, state ops.State, failures, crashes int) string {
	return fmt.Sprintf("%s %s, %s, %s", term.Shown(id), state, printable.Plural(failures, "failure"),
		printable.Plural(crashes, "crash"))
}

// prove prints the evidence beside the right ends of the orders, and reports whether they are the same.
func (d *demo) prove(e evidence, took time.Duration) bool {
	var dead, counted []string
	for _, o := range d.orders {
		switch o.Kind {
		case flaky:
			counted = append(counted, countedLine(o.ID, ops.Done, 2, 0))
		case deadly:
			counted = append(counted, countedLine(o.ID, ops.Done, 0, 1))
		case poisonous:
			counted = append(counted, countedLine(o.ID, ops.DeadLettered, demoRetries+1, 0))
			dead = append(dead, deadLine(o.ID, "rejected", d.queue))
		}
	}
	d.say("\nThe proof, after all consumers have ended:")
	right := true
	for _, c := range []struct{ what, source, want, got string }{
		{"orders still in the queue", "RabbitMQ", "0", strconv.Itoa(e.left)},
		{"orders in the dead-letter queue", "RabbitMQ", sortedLines(dead), sortedLines(e.dead)},
		{"counts", "the store", sortedLines(counted), sortedLines(e.counted)},
		{"orders handled to the end", "their consumers", strconv.Itoa(len(d.orders) - len(dead)), strconv.Itoa(e.acked)},
	} {
		if c.want == c.got {
			d.say("  ok    %s, says %s: %s", c.what, c.source, c.got)
			continue
		}
		right = false
		d.say("  WRONG %s, says %s: %s\n        it must be: %s", c.what, c.source, c.got, c.want)
	}
	if right {
		d.say("%d orders: %d handled, %d dead-lettered, none lost. (%.1f s)", len(d.orders), e.acked, len(e.dead),
			took.Seconds())
	}
	return right
}

func sortedLines(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}
