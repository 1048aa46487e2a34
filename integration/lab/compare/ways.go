package compare

import (
	"context"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// What is asked of every way: so many retries, then the dead-letter queue.
const (
	retries  = 3
	attempts = retries + 1
)

// way is one answer to the question what to do with a message whose handler failed.
type way struct {
	name  string
	idea  string // where it comes from, in a sentence
	limit int    // attempts after which it gives up; zero: attempts
	only  string // the type of queue that it is for; empty: any
	from  int    // the minor version of RabbitMQ 4 that can do it first; zero: any version can
	other string // ending of the name of another queue that it needs
	set   func(q *queues)
	work  func(context.Context, *client) error
}

// ways lists them in the order of the table. A way that is added here is in the table.
var ways = []way{
	{name: "bare", idea: "The loop of a first tutorial: ack whatever happens.", work: byHand(
		func(_ context.Context, _ *session, d *amqp.Delivery) error { return d.Ack(false) })},
	{name: "redelivered", limit: 2, idea: "Requeue once; the redelivered flag says that it was tried before.",
		work: byHand(
			func(_ context.Context, _ *session, d *amqp.Delivery) error { return d.Nack(false, !d.Redelivered) })},
	{name: "requeue", idea: "Nack with requeue until the handler succeeds.", work: byHand(
		func(_ context.Context, _ *session, d *amqp.Delivery) error { return d.Nack(false, true) })},
	{name: "copy-ack", idea: "Publish a copy with a count, wait for its confirm, then ack the original.",
		work: byHand(copyThenAck)},
	{name: "ack-copy", idea: "Ack first, so that nothing is doubled, then publish a copy with a count.",
		work: byHand(ackThenCopy)},
	{name: "header", idea: "Count in a header and publish to the tail, on the same channel and without confirms.",
		work: byHand(toTheTail)},
	{name: "ttl-loop", other: ".retry", set: loop, idea: "Dead-letter into a queue with a TTL that dead-letters back, " +
		"and count x-death.", work: byHand(countDeaths)},
	{name: "delivery-limit", only: quorum, idea: "Let the quorum queue count, with x-delivery-limit.", work: byHand(
		func(_ context.Context, _ *session, d *amqp.Delivery) error { return d.Reject(true) }), // 4.3 does not count a nack
		set: func(q *queues) { q.main["x-delivery-limit"] = retries }},
	{name: "delayed-retry", only: quorum, from: 3,
		idea: "Let the quorum queue count and delay, with x-delayed-retry-type.", work: byHand(
			func(_ context.Context, _ *session, d *amqp.Delivery) error { return d.Reject(true) }), set: delayed},
	{name: "side-queue", other: ".side", set: aside, idea: "Always ack; failed messages wait in a side queue with " +
		"consumers of its own.", work: byHand(copyAside)},
	{name: "incr", idea: "Count failures with INCR in Redis; the client sends nothing twice.", work: byHand(incr)},
	{name: "incr-retry", idea: "The same, with a client that repeats a command whose reply was lost, as go-redis does " +
		"by default.", work: byHand(incr)},
	{name: "strikes", idea: "strikes with retries at the head of the queue.", work: requeueing},
	{name: "strikes-ordered", idea: "strikes with Ordered, in lanes.", work: ordering,
		set: func(q *queues) { q.main["x-single-active-consumer"] = true }},
}

func (w *way) mostAttempts() int {
	if w.limit > 0 {
		return w.limit
	}
	return attempts
}

func findWay(name string) *way {
	for i := range ways {
		if ways[i].name == name {
			return &ways[i]
		}
	}
	return nil
}

func wayNames() string {
	var names []string
	for _, w := range ways {
		names = append(names, w.name)
	}
	return strings.Join(names, ", ")
}

const retriedHeader = "x-retried"

// copyHeader tells the copies of a message apart. The original has none.
const copyHeader = "x-copy"

func copyOf(d *amqp.Delivery) string {
	name, _ := d.Headers[copyHeader].(string)
	return name
}

// retried is how often the header says that a message was retried.
func retried(d *amqp.Delivery) int {
	n, _ := d.Headers[retriedHeader].(int32)
	return int(n)
}

func copyThenAck(ctx context.Context, s *session, d *amqp.Delivery) error {
	if retried(d) >= retries {
		return d.Nack(false, false)
	}
	if err := s.copy(ctx, s.Queue, d); err != nil {
		return err
	}
	return d.Ack(false)
}

func ackThenCopy(ctx context.Context, s *session, d *amqp.Delivery) error {
	if retried(d) >= retries {
		return d.Nack(false, false)
	}
	if err := d.Ack(false); err != nil {
		return err
	}
	return s.copy(ctx, s.Queue, d)
}

func toTheTail(ctx context.Context, s *session, d *amqp.Delivery) error {
	if retried(d) >= retries {
		return d.Nack(false, false)
	}
	if err := s.in.PublishWithContext(ctx, "", s.Queue, false, false, s.again(d)); err != nil {
		return err
	}
	return d.Ack(false)
}

// countDeaths sends the last failure to the dead-letter queue itself, as the queue's dead-letter exchange is the loop.
func countDeaths(ctx context.Context, s *session, d *amqp.Delivery) error {
	if deaths(d.Headers, s.Queue) < retries {
		return d.Nack(false, false)
	}
	if err := s.copy(ctx, s.Queue+deadLetters, d); err != nil {
		return err
	}
	return d.Ack(false)
}

// deaths is how often a queue dead-lettered a message that its consumers rejected.
func deaths(headers amqp.Table, queue string) int64 {
	all, _ := headers["x-death"].([]any)
	for _, entry := range all {
		if death, ok := entry.(amqp.Table); ok && death["queue"] == queue && death["reason"] == "rejected" {
			n, _ := death["count"].(int64)
			return n
		}
	}
	return 0
}

func copyAside(ctx context.Context, s *session, d *amqp.Delivery) error {
	to := s.Queue + ".side"
	if retried(d) >= retries {
		to = s.Queue + deadLetters
	}
	if err := s.copy(ctx, to, d); err != nil {
		return err
	}
	return d.Ack(false)
}
