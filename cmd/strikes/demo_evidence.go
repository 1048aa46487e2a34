package main

import (
	"context"
	"errors"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// arrival is how long a dead letter may take from one queue to the other.
const arrival = 5 * time.Second

// gather asks for the evidence. The consumers have ended, so what was out with them is back in the queue.
func (d *demonstration) gather(ctx context.Context) (evidence, error) {
	e := evidence{queue: d.queue}
	counts, err := d.ledger.counts()
	if err != nil {
		return e, err
	}
	e.runs, e.done = counts[entryRun], counts[entryDone]
	if e.listed, e.kept, err = d.counters(ctx); err != nil {
		return e, err
	}
	err = d.broker.With(ctx, func(conn *amqp.Connection) error {
		dead := slices.DeleteFunc(slices.Clone(d.orders), func(o order) bool { return o.Kind != poisonous })
		if err := waitReady(ctx, conn, d.queue+".dlq", len(dead)); err != nil {
			return err
		}
		if e.left, err = ready(conn, d.queue); err != nil {
			return err
		}
		e.deadLetters, err = look(conn, d.queue+".dlq")
		return err
	})
	return e, err
}

// waitReady waits until a queue has so many messages, or arrival is over.
func waitReady(ctx context.Context, conn *amqp.Connection, queue string, n int) error {
	deadline := time.NewTimer(arrival)
	defer deadline.Stop()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		if got, err := ready(conn, queue); err != nil || got >= n {
			return err
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look returns what is in a queue, and leaves it there.
func look(conn *amqp.Connection, queue string) ([]deadLetter, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	// closing the channel returns them
	defer ch.Close()
	var all []deadLetter
	for {
		d, ok, err := ch.Get(queue, false)
		if err != nil || !ok {
			return all, err
		}
		all = append(all, deadLetterOf(d))
	}
}

// deadLetterOf reads the newest entry of x-death.
func deadLetterOf(d amqp.Delivery) deadLetter {
	out := deadLetter{ID: d.MessageId}
	if deaths, _ := d.Headers["x-death"].([]any); len(deaths) > 0 {
		death, _ := deaths[0].(amqp.Table)
		out.Reason, _ = death["reason"].(string)
		out.From, _ = death["queue"].(string)
	}
	return out
}

// counters reads what the store lists of the queue, and what it keeps for a while of the orders that were handled after all.
func (d *demonstration) counters(ctx context.Context) (listed, kept []counter.Record, err error) {
	for r, err := range d.store.Admin().List(ctx, d.broker.VHost, d.queue) {
		if err != nil {
			return nil, nil, err
		}
		listed = append(listed, r)
	}
	for _, o := range d.orders {
		if o.Kind != flaky && o.Kind != deadly {
			continue
		}
		records, err := d.store.Admin().Get(ctx, d.broker.VHost, d.queue, o.ID)
		if err != nil {
			return nil, nil, err
		}
		kept = append(kept, slices.DeleteFunc(records, func(r counter.Record) bool {
			return slices.ContainsFunc(listed, func(l counter.Record) bool { return l.ID == r.ID && l.Generation == r.Generation })
		})...)
	}
	return listed, kept, nil
}

// remove deletes what the demo made on the broker and in the store.
func (d *demonstration) remove(ctx context.Context) error {
	var errs []error
	for _, o := range d.orders {
		_, err := d.store.Admin().Forget(ctx, d.broker.VHost, d.queue, o.ID)
		errs = append(errs, err)
	}
	errs = append(errs, d.broker.With(ctx, func(conn *amqp.Connection) error { return removeQueues(conn, d.queue) }))
	return errors.Join(errs...)
}

// removeQueues deletes what topology.Declare makes for a queue. What is not there is no error.
func removeQueues(conn *amqp.Connection, queue string) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	_, first := ch.QueueDelete(queue, false, false, false)
	exchange := ch.ExchangeDelete(queue+".dlx", false, false)
	_, second := ch.QueueDelete(queue+".dlq", false, false, false)
	return errors.Join(first, exchange, second)
}
