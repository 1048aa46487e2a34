package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// ledger is the path of a file to which the handlers of the demo append a line for each attempt and for each success.
type ledger string

func newLedger() (ledger, error) {
	f, err := os.CreateTemp("", "strikes-demo-")
	if err != nil {
		return "", err
	}
	return ledger(f.Name()), f.Close()
}

func (l ledger) remove() error { return os.Remove(string(l)) }

func (l ledger) counts() (map[string]int, error) {
	counts := map[string]int{}
	text, err := os.ReadFile(string(l))
	for line := range strings.Lines(string(text)) {
		counts[line]++
	}
	return counts, err
}

// right is how an order of each kind must end.
var right = map[string]string{
	plain: "1 attempt, handled 1 time",
	flaky: "3 attempts, handled 1 time; the store counts 2 failures, 0 crashes, done",
	deadly: fmt.Sprintf("%d attempts (%d not counted), handled 1 time; the store counts 0 failures, 1 crash, done",
		demoKills+1, demoKills-1),
	poisonous: fmt.Sprintf("%d attempts, handled 0 times; the store counts %[1]d failures, 0 crashes, dead-lettered; "+
		"RabbitMQ has it as rejected", demoRetries+1),
}

// gather finds how each order ended by the ledger, the store and the dead-letter queue, and how many messages are left
// in the queue. The consumers have ended, so their unacked messages are back in it.
func (d *demo) gather(ctx context.Context) (ends map[string]string, left int, err error) {
	counts, err := d.ledger.counts()
	if err != nil {
		return nil, 0, err
	}
	dead, left, err := d.deadLetters(ctx)
	if err != nil {
		return nil, 0, err
	}
	ends = maps.Clone(dead)
	for line := range counts {
		if id, is := strings.CutPrefix(strings.TrimSpace(line), "attempt "); is {
			ends[id] = ""
		}
	}
	for id := range ends {
		attempts, handled, counted := counts["attempt "+id+"\n"], counts["done "+id+"\n"], ""
		records, err := d.store.Admin().Get(ctx, d.broker.VHost, d.queue, id)
		if err != nil {
			return nil, 0, err
		}
		ends[id] = printable.Plural(attempts, "attempt")
		for _, r := range records {
			if r.Failures+r.Crashes == 0 {
				continue
			}
			if n := attempts - handled - r.Failures - r.Crashes; n > 0 {
				ends[id] += fmt.Sprintf(" (%d not counted)", n)
			}
			counted += fmt.Sprintf("; the store counts %s, %s, %s", printable.Plural(r.Failures, "failure"),
				printable.Plural(r.Crashes, "crash"), ops.StateOf(r))
		}
		ends[id] += ", handled " + printable.Plural(handled, "time") + counted + dead[id]
	}
	return ends, left, nil
}

// deadLetters returns the dead letters of each order, as a text, and the number of messages that are left in the queue.
func (d *demo) deadLetters(ctx context.Context) (dead map[string]string, left int, err error) {
	dead = map[string]string{}
	queue := broker.DeadLetterQueueFor(d.queue)
	err = d.broker.With(ctx, func(conn *amqp.Connection) error {
		return broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
			// a dead letter that takes longer from one queue to the other is for the verdict
			_ = poll.Until(ctx, 5*time.Second, "the dead letter", func() error {
				q, err := broker.Passive(ch, queue)
				if err == nil && q.Messages == 0 {
					err = errors.New("none")
				}
				return err
			})
			q, err := broker.Passive(ch, d.queue)
			left = q.Messages
			for err == nil { // they stay in the queue: the broker requeues them when the channel is closed
				m, came, got := ch.Get(queue, false)
				if !came {
					return got
				}
				for _, death := range broker.Deaths(m.Headers) {
					dead[m.MessageId] += "; RabbitMQ has it as " + death.Reason
				}
			}
			return err
		})
	})
	return dead, left, err
}

// judge returns a text for each order that did not end as it must. left is the number of orders that are still in the
// queue.
func judge(orders []order, ends map[string]string, left int) (wrong []string) {
	want, all := map[string]string{}, maps.Clone(ends)
	for _, o := range orders {
		want[o.ID], all[o.ID] = right[o.Kind], cmp.Or(ends[o.ID], "no trace of it")
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if all[id] != want[id] {
			wrong = append(wrong, fmt.Sprintf("%s: %s; it must be: %s", printable.Name(id), all[id],
				cmp.Or(want[id], "no order of the demo")))
		}
	}
	if left > 0 {
		wrong = append(wrong, fmt.Sprintf("%s left in the queue", printable.Plural(left, "order")))
	}
	return wrong
}

func printProof(w io.Writer, orders []order, wrong []string, took time.Duration) {
	fmt.Fprintf(w, "\nThe proof, after all consumers have ended:\n")
	for _, text := range wrong {
		fmt.Fprintf(w, "  WRONG %s\n", text)
	}
	if len(wrong) > 0 {
		return
	}
	for _, o := range orders {
		if o.Kind != plain {
			fmt.Fprintf(w, "  ok    %s: %s\n", o.ID, right[o.Kind])
		}
	}
	fmt.Fprintf(w, "  ok    each other order: %s\n", right[plain])
	fmt.Fprintf(w, "%d orders: %d handled, 1 dead-lettered, none lost. (%.1f s)\n", len(orders), len(orders)-1,
		took.Seconds())
}
