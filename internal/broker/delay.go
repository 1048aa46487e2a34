package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// DelayExchange is the direct exchange to which the buckets return messages. Each queue with delay queues is bound to
// it by its name.
const DelayExchange = "strikes.delay"

// DelayLost is the fanout exchange, and its quorum queue, for messages that come back after their queue was deleted.
// Without it they stay in their bucket, and 32 of them keep the bucket from returning others (measured with 3.10.8 and
// 4.3.6).
const DelayLost = "strikes.delay.lost"

// DelayArguments are those of the DelayExchange.
func DelayArguments() amqp.Table { return amqp.Table{"alternate-exchange": DelayLost} }

// Bucket is a fanout exchange and a quorum queue of the same name, in which messages wait for a time. Then the broker
// returns each to the DelayExchange, with the routing key it was published with.
type Bucket struct {
	Name string
	TTL  time.Duration
}

// Buckets are delay queues, the shortest first. All queues of a virtual host share them.
var Buckets = []Bucket{
	{"strikes.delay.1m", time.Minute},
	{"strikes.delay.10m", 10 * time.Minute},
	{"strikes.delay.1h", time.Hour},
	{"strikes.delay.6h", 6 * time.Hour},
	{"strikes.delay.24h", 24 * time.Hour},
}

// LongestBucket is the TTL of the last of the Buckets.
const LongestBucket = 24 * time.Hour

// BucketFor returns the bucket with the longest TTL that fits into a wait; false if none does.
func BucketFor(wait time.Duration) (b Bucket, ok bool) {
	for _, bucket := range Buckets {
		if bucket.TTL <= wait {
			b, ok = bucket, true
		}
	}
	return b, ok
}

// Arguments are those of the bucket's queue. It has no dead-letter routing key, so that a message keeps the one it was
// published with. At-least-once needs reject-publish, else it silently falls back to at-most-once. The delivery limit
// is for people who look into it.
func (b Bucket) Arguments() amqp.Table {
	return amqp.Table{
		ArgType: Quorum, ArgTTL: b.TTL.Milliseconds(), ArgDeadLetterExchange: DelayExchange, ArgStrategy: "at-least-once",
		ArgOverflow:      "reject-publish",
		ArgDeliveryLimit: int64(DeadLetterLimit),
	}
}

// IsDelayQueue reports whether a queue is a delay queue: no consumer retries from it.
func IsDelayQueue(queue string) bool {
	return queue == DelayLost || slices.ContainsFunc(Buckets, func(b Bucket) bool { return b.Name == queue })
}

// BucketsOf says whether the virtual host of a connection has the buckets. Wrong lists each that is missing, is bound
// to nothing known or was declared otherwise; unless found is Yes it is empty. Unread lists what the broker did not
// show.
func BucketsOf(ctx context.Context, conn *amqp.Connection) (found Answer, wrong, unread []string, err error) {
	missing := 0
	for _, exchange := range []string{DelayExchange, DelayLost} {
		exists, err := FindExchange(ctx, conn, exchange)
		if UnlessRefused(err) != nil {
			return Unknown, nil, nil, err
		}
		if exists == No {
			wrong = append(wrong, fmt.Sprintf("exchange %q does not exist", exchange))
		}
	}
	for _, b := range Buckets {
		exists, _, err := FindQueue(ctx, conn, b.Name)
		if UnlessRefused(err) != nil {
			return Unknown, nil, nil, err
		}
		exchange, err := FindExchange(ctx, conn, b.Name)
		if UnlessRefused(err) != nil {
			return Unknown, nil, nil, err
		}
		if exists == No && exchange == No {
			missing++
		}
		switch {
		case exists == No:
			wrong = append(wrong, fmt.Sprintf("queue %q does not exist", b.Name))
			continue
		case exchange == No:
			wrong = append(wrong, fmt.Sprintf("exchange %q does not exist", b.Name))
			continue
		}
		differs, err := b.differs(ctx, conn)
		var unreadable UnreadableError
		switch {
		case errors.As(err, &unreadable):
			unread = append(unread, fmt.Sprintf("queue %q: %s", b.Name, unreadable.Reason))
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrExclusive):
			wrong = append(wrong, fmt.Sprintf("queue %q: %v", b.Name, err))
		case err != nil:
			return Unknown, nil, nil, err
		}
		if differs != "" {
			wrong = append(wrong, differs)
		}
	}
	if missing == len(Buckets) {
		return No, nil, nil, nil
	}
	return Yes, wrong, unread, nil
}

// differs says how the bucket's queue differs from its arguments; empty: it does not.
func (b Bucket) differs(ctx context.Context, conn *amqp.Connection) (string, error) {
	refusal, err := redeclare(ctx, conn, reading{queue: b.Name, durable: true, args: b.Arguments()})
	if err != nil || refusal == nil {
		return "", err
	}
	r := reading{queue: b.Name, durable: true, args: b.Arguments(), guesses: map[string][]any{}}
	if err := r.learn(refusal, conn.Config.Vhost); err != nil {
		return "", err
	}
	d, _ := parseDifference(refusal.Reason, conn.Config.Vhost, b.Name)
	return fmt.Sprintf("queue %q has another %s", b.Name, d.name), nil
}
