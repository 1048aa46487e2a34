package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/poll"
)

// arrival is how long a dead letter may take from one queue to the other.
const arrival = 5 * time.Second

// gather collects the evidence. The consumers have ended, so their unacked messages are back in the queue.
func (d *demo) gather(ctx context.Context) (evidence, error) {
	e := evidence{queue: d.name}
	entries, err := d.ledger.entries()
	if err != nil {
		return e, err
	}
	e.attempts, e.done, e.again = countEntries(entries, entryAttempt), countEntries(entries, entryDone),
		handledAgain(entries, d.killed)
	if e.records, err = d.records(ctx); err != nil {
		return e, err
	}
	err = d.broker.With(ctx, func(conn *amqp.Connection) error {
		dead := len(slices.DeleteFunc(slices.Clone(d.orders), func(o order) bool { return o.Kind != poisonous }))
		return broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
			// what is missing then is for the verdict
			_ = poll.Until(ctx, arrival, "the dead letters", func() error {
				n, err := depth(ch, broker.DeadLetterQueueFor(d.name))
				if err == nil && n < dead {
					err = fmt.Errorf("%d of %d", n, dead)
				}
				return err
			})
			if e.left, err = depth(ch, d.name); err != nil {
				return err
			}
			e.deadLetters, err = browse(ch, broker.DeadLetterQueueFor(d.name))
			return err
		})
	})
	return e, err
}

func depth(ch *amqp.Channel, queue string) (int, error) {
	q, err := broker.Passive(ch, queue)
	return q.Messages, err
}

// browse returns the messages of a queue. They stay in it: the broker requeues them when the channel is closed.
func browse(ch *amqp.Channel, queue string) (all []deadLetter, err error) {
	for {
		d, ok, err := ch.Get(queue, false)
		if err != nil || !ok {
			return all, err
		}
		out := deadLetter{ID: d.MessageId}
		if deaths := broker.Deaths(d.Headers); len(deaths) > 0 {
			out.Reason, out.From = deaths[0].Reason, deaths[0].Queue
		}
		all = append(all, out)
	}
}

// records reads the records that the store lists for the queue, and those it keeps of the orders that succeeded in the
// end.
func (d *demo) records(ctx context.Context) (all []counter.Record, err error) {
	for r, err := range d.store.Admin().List(ctx, d.broker.VHost, d.name) {
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	listed := all
	for _, o := range d.orders {
		if o.Kind != flaky && o.Kind != deadly {
			continue
		}
		records, err := d.store.Admin().Get(ctx, d.broker.VHost, d.name, o.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, slices.DeleteFunc(records, func(r counter.Record) bool {
			return slices.ContainsFunc(listed, func(l counter.Record) bool {
				return l.ID == r.ID && l.Generation == r.Generation
			})
		})...)
	}
	return all, nil
}

// remove deletes what the demo made on the broker and in the store.
func (d *demo) remove(ctx context.Context) error {
	var errs []error
	for _, o := range d.orders {
		_, err := d.store.Admin().Forget(ctx, d.broker.VHost, d.name, o.ID)
		errs = append(errs, err)
	}
	errs = append(errs, d.broker.With(ctx, func(conn *amqp.Connection) error {
		return broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
			_, queue := ch.QueueDelete(d.name, false, false, false)
			exchange := ch.ExchangeDelete(broker.ExchangeFor(d.name), false, false)
			_, dead := ch.QueueDelete(broker.DeadLetterQueueFor(d.name), false, false, false)
			return errors.Join(queue, exchange, dead)
		})
	}))
	return errors.Join(errs...)
}
