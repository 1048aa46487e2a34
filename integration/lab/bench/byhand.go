package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
)

// counterTTL is how long a counter by hand lives, as those of strikes do.
const counterTTL = 7 * 24 * time.Hour

// countByHand counts failures with INCR and EXPIRE, in one round trip, and leaves the counters to expire.
func countByHand(ctx context.Context, t *trial, conn *amqp.Connection) error {
	return t.serve(ctx, conn, prefetch, t.counting(ctx, false))
}

// countByHandOrdered keeps the order with a prefetch of 1: a failed message comes back before the next one is sent.
func countByHandOrdered(ctx context.Context, t *trial, conn *amqp.Connection) error {
	return t.serve(ctx, conn, 1, t.counting(ctx, false))
}

// countByHandDel also deletes the counter on every success, so that an id may be used again.
func countByHandDel(ctx context.Context, t *trial, conn *amqp.Connection) error {
	return t.serve(ctx, conn, prefetch, t.counting(ctx, true))
}

func (t *trial) counting(ctx context.Context, clearing bool) worker {
	return eachDelivery(func(d *amqp.Delivery) error {
		key := t.name + ":" + t.spec.Queue + ":" + d.MessageId
		if t.tally.handle(d) != nil {
			return t.failByHand(ctx, d, key)
		}
		if clearing {
			if err := t.plain.Del(ctx, key).Err(); err != nil {
				return err
			}
		}
		if err := d.Ack(false); err != nil {
			return err
		}
		t.tally.settle(1)
		return nil
	})
}

func (t *trial) failByHand(ctx context.Context, d *amqp.Delivery, key string) error {
	var failures *redis.IntCmd
	_, err := t.plain.Pipelined(ctx, func(p redis.Pipeliner) error {
		failures = p.Incr(ctx, key)
		p.Expire(ctx, key, counterTTL)
		return nil
	})
	if err != nil {
		return err
	}
	if failures.Val() <= retries {
		return d.Nack(false, true)
	}
	if err := d.Nack(false, false); err != nil {
		return err
	}
	t.tally.settle(1)
	return nil
}

// deliveryLimit leaves the count to a quorum queue with x-delivery-limit. It rejects: RabbitMQ 4.3 does not count a
// nack.
func deliveryLimit(ctx context.Context, t *trial, conn *amqp.Connection) error {
	return t.serve(ctx, conn, prefetch, eachDelivery(func(d *amqp.Delivery) error {
		err := t.tally.handle(d)
		final := err == nil || t.tally.last(d) // read before the message can be delivered again
		if err == nil {
			err = d.Ack(false)
		} else {
			err = d.Reject(true)
		}
		if err == nil && final {
			t.tally.settle(1)
		}
		return err
	}))
}

// retriesHeader is where republish counts.
const retriesHeader = "x-retries"

// republish publishes a failed message anew, with its count in a header, and acks the old one once the broker has
// confirmed the new one. It publishes on a connection of its own, as a program should.
func republish(ctx context.Context, t *trial, conn *amqp.Connection) (err error) {
	publishing, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeConnection(publishing)) }()
	out, err := publishing.Channel()
	if err != nil {
		return err
	}
	if err := out.Confirm(false); err != nil {
		return err
	}
	return t.serve(ctx, conn, prefetch, eachDelivery(func(d *amqp.Delivery) error {
		retried, _ := d.Headers[retriesHeader].(int32)
		err := t.tally.handle(d)
		switch {
		case err == nil:
			err = d.Ack(false)
			t.tally.settle(1)
		case retried >= retries:
			err = d.Nack(false, false)
			t.tally.settle(1)
		default:
			err = t.republishOne(ctx, out, d, retried+1)
		}
		return err
	}))
}

func (t *trial) republishOne(ctx context.Context, out *amqp.Channel, d *amqp.Delivery, retry int32) error {
	confirm, err := out.PublishWithDeferredConfirm("", t.spec.Queue, true, false, amqp.Publishing{
		Headers: amqp.Table{retriesHeader: retry}, DeliveryMode: amqp.Persistent, MessageId: d.MessageId, Body: d.Body,
	})
	if err != nil {
		return err
	}
	if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
		return errors.Join(fmt.Errorf("publishing message %s again: confirmed: %v", d.MessageId, ok), err)
	}
	return d.Ack(false)
}
