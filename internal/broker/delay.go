package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// DelayExchange is the direct exchange to which the delay queues return messages. Each queue with delay queues is
// bound to it by its name.
const DelayExchange = "strikes.delay"

// DelayLost is the fanout exchange, and its quorum queue, for messages that come back after their queue was deleted.
// Without it they stay in their delay queue, and 32 of them keep the delay queue from returning others (measured with
// 3.10.8 and 4.3.6).
const DelayLost = "strikes.delay.lost"

// DelayArguments are those of the DelayExchange.
func DelayArguments() amqp.Table { return amqp.Table{"alternate-exchange": DelayLost} }

// DelayQueue is a fanout exchange and a quorum queue of the same name, in which messages wait for a time. Then the
// broker returns each to the DelayExchange, with the routing key it was published with.
type DelayQueue struct {
	Name string
	TTL  time.Duration
}

// DelayQueues are delay queues, the shortest first. All queues of a virtual host share them.
var DelayQueues = []DelayQueue{
	{"strikes.delay.1m", time.Minute},
	{"strikes.delay.10m", 10 * time.Minute},
	{"strikes.delay.1h", time.Hour},
	{"strikes.delay.6h", 6 * time.Hour},
	{"strikes.delay.24h", 24 * time.Hour},
}

// LongestDelay is the TTL of the last of the DelayQueues.
const LongestDelay = 24 * time.Hour

// DelayQueueFor returns the delay queue with the longest TTL that fits into a wait; false if none does.
func DelayQueueFor(wait time.Duration) (b DelayQueue, ok bool) {
	for _, delayQueue := range DelayQueues {
		if delayQueue.TTL <= wait {
			b, ok = delayQueue, true
		}
	}
	return b, ok
}

// Arguments are those with which the delay queue is declared. It has no dead-letter routing key, so that a message
// keeps the one it was published with. At-least-once needs reject-publish, else it silently falls back to
// at-most-once. The delivery limit is for people who look into it.
func (b DelayQueue) Arguments() amqp.Table {
	return amqp.Table{
		ArgType: Quorum, ArgTTL: b.TTL.Milliseconds(), ArgDeadLetterExchange: DelayExchange, ArgStrategy: "at-least-once",
		ArgOverflow:      "reject-publish",
		ArgDeliveryLimit: int64(DeadLetterLimit),
	}
}

// IsDelayQueue reports whether a queue is a delay queue: no consumer retries from it.
func IsDelayQueue(queue string) bool {
	return queue == DelayLost || slices.ContainsFunc(DelayQueues, func(b DelayQueue) bool { return b.Name == queue })
}

// DelayQueuesOf says whether the virtual host of a connection has the delay queues. Wrong lists each that is missing,
// is bound to nothing known or was declared otherwise; unless found is Yes it is empty. Unread lists the facts that the
// broker did not show. The queues have 10 s to answer, all of them together.
func DelayQueuesOf(ctx context.Context, conn *amqp.Connection) (found Answer, wrong, unread []string, err error) {
	found = No
	note := func(kind, name string, exists Answer) {
		if exists == No {
			wrong = append(wrong, fmt.Sprintf("%s %q does not exist", kind, name))
		} else if name != DelayExchange && name != DelayLost {
			found = Yes
		}
	}
	exchanges := []string{DelayExchange, DelayLost}
	for _, b := range DelayQueues {
		exchanges = append(exchanges, b.Name)
	}
	for _, name := range exchanges {
		exists, err := FindExchange(ctx, conn, name)
		if UnlessRefused(err) != nil {
			return Unknown, nil, nil, err
		}
		note("exchange", name, exists)
	}
	asking, cancel := context.WithTimeoutCause(ctx, queueAnswers, ErrAway)
	defer cancel()
	for _, b := range DelayQueues {
		differs := ""
		exists, _, err := FindQueue(asking, conn, b.Name)
		if note("queue", b.Name, exists); exists == No {
			continue
		}
		if UnlessRefused(err) == nil && !IsAway(err) {
			differs, err = b.differs(asking, conn)
		}
		var unreadable unreadableError
		switch {
		case errors.As(err, &unreadable):
			unread = append(unread, fmt.Sprintf("queue %q: %s", b.Name, unreadable.Reason))
		case IsAway(err), ctx.Err() == nil && asking.Err() != nil:
			unread = append(unread, fmt.Sprintf("queue %q: %v", b.Name, ErrAway))
		case errors.Is(err, ErrNotFound), errors.Is(err, errExclusive):
			wrong = append(wrong, fmt.Sprintf("queue %q: %v", b.Name, err))
		case err != nil:
			return Unknown, nil, nil, err
		case differs != "":
			wrong = append(wrong, differs)
		}
	}
	if found == No {
		return No, nil, nil, nil
	}
	return Yes, wrong, unread, nil
}

// differs says how the declared delay queue differs from its arguments; empty: it does not.
func (b DelayQueue) differs(ctx context.Context, conn *amqp.Connection) (string, error) {
	r := read(b.Name)
	r.Args = b.Arguments()
	refusal, err := redeclare(ctx, conn, r)
	if err != nil || refusal == nil {
		return "", err
	}
	d, ok := parseDifference(refusal.Reason, conn.Config.Vhost, b.Name)
	if !ok {
		return "", r.learn(refusal, conn.Config.Vhost)
	}
	return fmt.Sprintf("queue %q has another %s", b.Name, d.name), nil
}
