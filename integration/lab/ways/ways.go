// Package ways is a table of the usual ways to retry a message, and the loops that consume with each.
package ways

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Retries are asked of every way, and then the dead-letter queue.
const (
	Retries  = 3
	attempts = Retries + 1
)

// Way is one way to treat a message whose handler failed.
type Way struct {
	Name  string
	Idea  string // where it comes from, in a sentence
	limit int    // attempts after which it gives up; zero: one more than Retries
	Only  string // the type of queue that it is for; empty: any
	From  int    // the minor version of RabbitMQ 4 that can do it first; zero: any version can
	other string // ending of the name of another queue that it needs
	set   func(q *Queues)
	Work  func(context.Context, *Client) error // until ctx is done
}

// All lists them in the order of the table. A way that is added here is in the table.
var All = []Way{
	{Name: "bare", Idea: "The loop of a first tutorial: ack whatever happens.", Work: ByHand(
		func(_ context.Context, _ *Session, d *amqp.Delivery) error { return d.Ack(false) })},
	{Name: "redelivered", limit: 2, Idea: "Requeue once; the redelivered flag says that it was tried before.",
		Work: ByHand(
			func(_ context.Context, _ *Session, d *amqp.Delivery) error { return d.Nack(false, !d.Redelivered) })},
	{Name: "requeue", Idea: "Nack with requeue until the handler succeeds.", Work: ByHand(
		func(_ context.Context, _ *Session, d *amqp.Delivery) error { return d.Nack(false, true) })},
	{Name: "copy-ack", Idea: "Publish a copy with a count, wait for its confirm, then ack the original.",
		Work: ByHand(copyThenAck)},
	{Name: "ack-copy", Idea: "Ack first, so that nothing is doubled, then publish a copy with a count.",
		Work: ByHand(ackThenCopy)},
	{Name: "header", Idea: "Count in a header and publish to the tail, on the same channel and without confirms.",
		Work: ByHand(toTheTail)},
	{Name: "ttl-loop", other: ".retry", set: loop, Idea: "Dead-letter into a queue with a TTL that dead-letters back, " +
		"and count x-death.", Work: ByHand(countDeaths)},
	{Name: "delivery-limit", Only: Quorum, Idea: "Let the quorum queue count, with x-delivery-limit.", Work: ByHand(
		func(_ context.Context, _ *Session, d *amqp.Delivery) error { return d.Reject(true) }), // 4.3 does not count a nack
		set: func(q *Queues) { q.Main["x-delivery-limit"] = Retries }},
	{Name: "delayed-retry", Only: Quorum, From: 3,
		Idea: "Let the quorum queue count and delay, with x-delayed-retry-type.", Work: ByHand(
			func(_ context.Context, _ *Session, d *amqp.Delivery) error { return d.Reject(true) }), set: delayed},
	{Name: "side-queue", other: sideEnding, set: aside, Idea: "Always ack; failed messages wait in a side queue with " +
		"consumers of its own.", Work: ByHand(copyAside)},
	{Name: "incr", Idea: "Count failures with INCR in Redis; the client sends nothing twice.", Work: ByHand(Incr)},
	{Name: "incr-retry", Idea: "The same, with a client that repeats a command whose reply was lost, as go-redis does " +
		"by default.", Work: ByHand(Incr)},
	{Name: "strikes", Idea: "strikes with retries at the head of the queue.", Work: requeueing(0)},
	{Name: "strikes-breaker", Idea: "The same, with Breaker: 8.", Work: requeueing(8)},
	{Name: "strikes-ordered", Idea: "strikes with Ordered, in lanes.", Work: ordering,
		set: func(q *Queues) { q.Main["x-single-active-consumer"] = true }},
}

// MostAttempts is how many attempts the way allows a message.
func (w *Way) MostAttempts() int {
	if w.limit > 0 {
		return w.limit
	}
	return attempts
}

// Find returns the way of a name; nil: there is none.
func Find(name string) *Way {
	for i := range All {
		if All[i].Name == name {
			return &All[i]
		}
	}
	return nil
}

// sideEnding ends the name of the side queue.
const sideEnding = ".side"

const retriedHeader = "x-retried"

// copyHeader tells the copies of a message apart. The original has none.
const copyHeader = "x-copy"

// CopyOf names the copy that a delivery is of.
func CopyOf(d *amqp.Delivery) string {
	name, _ := d.Headers[copyHeader].(string)
	return name
}

// retried is how often the header says that a message was retried.
func retried(d *amqp.Delivery) int {
	n, _ := d.Headers[retriedHeader].(int32)
	return int(n)
}

func copyThenAck(ctx context.Context, s *Session, d *amqp.Delivery) error {
	if retried(d) >= Retries {
		return d.Nack(false, false)
	}
	if err := s.copy(ctx, s.Queue, d); err != nil {
		return err
	}
	return d.Ack(false)
}

func ackThenCopy(ctx context.Context, s *Session, d *amqp.Delivery) error {
	if retried(d) >= Retries {
		return d.Nack(false, false)
	}
	if err := d.Ack(false); err != nil {
		return err
	}
	return s.copy(ctx, s.Queue, d)
}

func toTheTail(ctx context.Context, s *Session, d *amqp.Delivery) error {
	if retried(d) >= Retries {
		return d.Nack(false, false)
	}
	if err := s.in.PublishWithContext(ctx, "", s.Queue, false, false, s.again(d)); err != nil {
		return err
	}
	return d.Ack(false)
}

// countDeaths sends the last failure to the dead-letter queue itself, as the queue's dead-letter exchange is the loop.
func countDeaths(ctx context.Context, s *Session, d *amqp.Delivery) error {
	if deaths(d.Headers, s.Queue) < Retries {
		return d.Nack(false, false)
	}
	if err := s.copy(ctx, s.Queue+DeadLetters, d); err != nil {
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

func copyAside(ctx context.Context, s *Session, d *amqp.Delivery) error {
	to := s.Queue + sideEnding
	if retried(d) >= Retries {
		to = s.Queue + DeadLetters
	}
	if err := s.copy(ctx, to, d); err != nil {
		return err
	}
	return d.Ack(false)
}
