package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
)

// counterTTL is how long a counter by hand lives, as ours do.
const counterTTL = 7 * 24 * time.Hour

// incrByHand counts failures with INCR and EXPIRE, in one round trip, and leaves the counters to expire.
func incrByHand(ctx context.Context, a *arena, conn *amqp.Connection) error {
	return a.serve(ctx, conn, a.countByHand(ctx, false))
}

// incrByHandOrdered keeps the order by having no other message out: a failed one comes back before the next is sent.
func incrByHandOrdered(ctx context.Context, a *arena, conn *amqp.Connection) error {
	return a.serveSome(ctx, conn, 1, a.countByHand(ctx, false))
}

// incrByHandDel also deletes the counter on every success, so that an id may be used again.
func incrByHandDel(ctx context.Context, a *arena, conn *amqp.Connection) error {
	return a.serve(ctx, conn, a.countByHand(ctx, true))
}

func (a *arena) countByHand(ctx context.Context, clearing bool) worker {
	return func(deliveries <-chan amqp.Delivery) error {
		for d := range deliveries {
			key := a.Name + ":" + a.spec.Queue + ":" + d.MessageId
			var err error
			if a.tally.handle(&d) != nil {
				err = a.failByHand(ctx, &d, key)
			} else {
				err = a.succeedByHand(ctx, &d, key, clearing)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func (a *arena) succeedByHand(ctx context.Context, d *amqp.Delivery, key string, clearing bool) error {
	if clearing {
		if err := a.plain.Del(ctx, key).Err(); err != nil {
			return err
		}
	}
	if err := d.Ack(false); err != nil {
		return err
	}
	a.tally.settle(1)
	return nil
}

func (a *arena) failByHand(ctx context.Context, d *amqp.Delivery, key string) error {
	var failures *redis.IntCmd
	_, err := a.plain.Pipelined(ctx, func(p redis.Pipeliner) error {
		failures = p.Incr(ctx, key)
		p.Expire(ctx, key, counterTTL)
		return nil
	})
	if err != nil {
		return err
	}
	if failures.Val() <= Retries {
		return d.Nack(false, true)
	}
	if err := d.Nack(false, false); err != nil {
		return err
	}
	a.tally.settle(1)
	return nil
}

// deliveryLimit leaves the count to a quorum queue with x-delivery-limit. It rejects: RabbitMQ 4.3 does not count a nack.
func deliveryLimit(ctx context.Context, a *arena, conn *amqp.Connection) error {
	return a.serve(ctx, conn, func(deliveries <-chan amqp.Delivery) error {
		for d := range deliveries {
			err := a.tally.handle(&d)
			final := err == nil || a.tally.last(&d) // looked at before the message can run again
			if err == nil {
				err = d.Ack(false)
			} else {
				err = d.Reject(true)
			}
			if err != nil {
				return err
			}
			if final {
				a.tally.settle(1)
			}
		}
		return nil
	})
}

// retriesHeader is where republish counts.
const retriesHeader = "x-retries"

// republish publishes a failed message anew, with its count in a header, and acks the old one once the broker has
// confirmed the new one. It publishes on a connection of its own, as one should.
func republish(ctx context.Context, a *arena, conn *amqp.Connection) (err error) {
	publishing, err := a.Dial(ctx)
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
	return a.serve(ctx, conn, func(deliveries <-chan amqp.Delivery) error {
		for d := range deliveries {
			retried, _ := d.Headers[retriesHeader].(int32)
			err := a.tally.handle(&d)
			switch {
			case err == nil:
				err = d.Ack(false)
				a.tally.settle(1)
			case retried >= Retries:
				err = d.Nack(false, false)
				a.tally.settle(1)
			default:
				err = a.republishOne(ctx, out, &d, retried+1)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *arena) republishOne(ctx context.Context, out *amqp.Channel, d *amqp.Delivery, retries int32) error {
	confirm, err := out.PublishWithDeferredConfirm("", a.spec.Queue, true, false, amqp.Publishing{
		Headers: amqp.Table{retriesHeader: retries}, DeliveryMode: amqp.Persistent, MessageId: d.MessageId, Body: d.Body,
	})
	if err != nil {
		return err
	}
	if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
		return errors.Join(fmt.Errorf("publishing message %s again: confirmed: %v", d.MessageId, ok), err)
	}
	return d.Ack(false)
}
