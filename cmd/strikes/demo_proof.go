package main

import (
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

// counts returns how often each line is there.
func (l ledger) counts() (map[string]int, error) {
	counts := map[string]int{}
	text, err := os.ReadFile(string(l))
	for line := range strings.Lines(string(text)) {
		counts[line]++
	}
	return counts, err
}

// end is how an order ended.
type end struct {
	Attempts   int    // of the handler, says the ledger
	NotCounted int    // of these
	Handled    int    // so often to the end, says the ledger
	Counted    string // says the store
	Dead       string // says the dead-letter queue
}

func (e end) String() string {
	text := printable.Plural(e.Attempts, "attempt")
	if e.NotCounted > 0 {
		text += fmt.Sprintf(" (%d not counted)", e.NotCounted)
	}
	text += ", handled " + printable.Plural(e.Handled, "time")
	if e.Counted != "" {
		text += "; the store counts " + e.Counted
	}
	if e.Dead != "" {
		text += "; RabbitMQ has it as " + e.Dead
	}
	return text
}

// right is how an order of each kind must end.
var right = map[string]end{
	plain:     {Attempts: 1, Handled: 1},
	flaky:     {Attempts: 3, Handled: 1, Counted: "2 failures, 0 crashes, done"},
	deadly:    {Attempts: demoKills + 1, NotCounted: demoKills - 1, Handled: 1, Counted: "0 failures, 1 crash, done"},
	poisonous: {Attempts: demoRetries + 1, Counted: "4 failures, 0 crashes, dead-lettered", Dead: "rejected"},
}

// gather finds how each order ended, and how many messages are left in the queue. The consumers have ended, so their
// unacked messages are back in it.
func (d *demo) gather(ctx context.Context) (ends map[string]end, left int, err error) {
	counts, err := d.ledger.counts()
	if err != nil {
		return nil, 0, err
	}
	ends = map[string]end{}
	for line, n := range counts {
		if id, is := strings.CutPrefix(line, "attempt "); is {
			ends[strings.TrimSpace(id)] = end{Attempts: n, Handled: counts["done "+id]}
		}
	}
	for _, o := range d.orders {
		records, err := d.store.Admin().Get(ctx, d.broker.VHost, d.queue, o.ID)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range records {
			if r.Failures+r.Crashes > 0 {
				e := ends[o.ID]
				e.NotCounted = e.Attempts - e.Handled - r.Failures - r.Crashes
				e.Counted += fmt.Sprintf("%s, %s, %s", printable.Plural(r.Failures, "failure"),
					printable.Plural(r.Crashes, "crash"), ops.StateOf(r))
				ends[o.ID] = e
			}
		}
	}
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
				e := ends[m.MessageId]
				for _, death := range broker.Deaths(m.Headers) {
					e.Dead += death.Reason
				}
				ends[m.MessageId] = e
			}
			return err
		})
	})
	return ends, left, err
}

// verdict is the outcome of a demo.
type verdict struct {
	ends                  map[string]end // by order
	handled, deadLettered int
	wrong                 []string
}

// judge compares the ends of the orders with the right ones. left is the number of orders that are still in the queue.
func judge(orders []order, ends map[string]end, left int) verdict {
	v, want, all := verdict{ends: ends}, map[string]end{}, maps.Clone(ends)
	for _, o := range orders {
		want[o.ID], all[o.ID] = right[o.Kind], ends[o.ID]
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		got := all[id]
		v.handled += min(got.Handled, 1)
		if got.Dead != "" {
			v.deadLettered++
		}
		if got != want[id] {
			v.wrong = append(v.wrong, fmt.Sprintf("%s: %v; it must be: %v", printable.Name(id), got, want[id]))
		}
	}
	if left > 0 {
		v.wrong = append(v.wrong, fmt.Sprintf("%s left in the queue", printable.Plural(left, "order")))
	}
	return v
}

// print shows the proof, and how long the orders took.
func (v *verdict) print(w io.Writer, orders []order, took time.Duration) {
	fmt.Fprintf(w, "\nThe proof, after all consumers have ended:\n")
	for _, text := range v.wrong {
		fmt.Fprintf(w, "  WRONG %s\n", text)
	}
	if len(v.wrong) > 0 {
		return
	}
	for _, o := range orders {
		if o.Kind != plain {
			fmt.Fprintf(w, "  ok    %s: %v\n", o.ID, v.ends[o.ID])
		}
	}
	fmt.Fprintf(w, "  ok    each other order: %v\n", right[plain])
	fmt.Fprintf(w, "%d orders: %d handled, %d dead-lettered, none lost. (%.1f s)\n", len(orders), v.handled,
		v.deadLettered, took.Seconds())
}
