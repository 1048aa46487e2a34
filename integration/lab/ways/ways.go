// Package ways is a table of the usual ways to retry a message, and the loops that consume with each.
package ways

import (
	"cmp"
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// Retries are asked of every way, and then the dead-letter queue.
const Retries = 3

// Way is one way to treat a message whose handler failed.
type Way struct {
	Name  string
	limit int    // attempts after which it gives up; zero: one more than Retries
	Only  string // the type of queue that it is for; empty: any
	From  int    // the minor version of RabbitMQ 4 that can do it first; zero: any version can
	other string // ending of the name of another queue that it needs
	set   func(q *Queues)
	Work  func(context.Context, *Client) error // until ctx is done
}

// All lists them in the order of the table. A way that is added here is in the table.
var All = []Way{
	// The loop of a first tutorial: ack whatever happens.
	{Name: "bare", Work: ByHand(func(_ context.Context, _ *Session, d *amqp.Delivery) error { return d.Ack(false) })},
	// Requeue once; the redelivered flag says that it was tried before.
	{Name: "redelivered", limit: 2, Work: ByHand(
		func(_ context.Context, _ *Session, d *amqp.Delivery) error { return d.Nack(false, !d.Redelivered) })},
	// Nack with requeue until the handler succeeds.
	{Name: "requeue", Work: ByHand(
		func(_ context.Context, _ *Session, d *amqp.Delivery) error { return d.Nack(false, true) })},
	// Publish a copy with a count, wait for its confirm, then ack the original.
	{Name: "copy-ack", Work: ByHand(copyThenAck)},
	// Ack first, so that nothing is doubled, then publish a copy with a count.
	{Name: "ack-copy", Work: ByHand(ackThenCopy)},
	// Count in a header and publish to the tail, on the same channel and without confirms.
	{Name: "header", Work: ByHand(toTheTail)},
	// Dead-letter into a queue with a TTL that dead-letters back, and count x-death.
	{Name: "ttl-loop", other: ".retry", set: loop, Work: ByHand(countDeaths)},
	// Let the quorum queue count, with x-delivery-limit.
	{Name: "delivery-limit", Only: Quorum, Work: ByHand(reject),
		set: func(q *Queues) { q.Main["x-delivery-limit"] = Retries }},
	// Let the quorum queue count and delay, with x-delayed-retry-type.
	{Name: "delayed-retry", Only: Quorum, From: 3, Work: ByHand(reject), set: delayed},
	// Always ack; failed messages wait in a side queue with consumers of its own.
	{Name: "side-queue", other: sideEnding, set: aside, Work: ByHand(copyAside)},
	// Count failures with INCR in Redis; the client sends nothing twice.
	{Name: "incr", Work: ByHand(Incr)},
	// The same, with a client that repeats a command whose reply was lost, as go-redis does by default.
	{Name: "incr-retry", Work: ByHand(Incr)},
	// strikes with retries at the head of the queue.
	{Name: "strikes", Work: requeueing(0)},
	// The same, with Breaker: 8.
	{Name: "strikes-breaker", Work: requeueing(8)},
	// strikes with Ordered, in lanes.
	{Name: "strikes-ordered", Work: ordering, set: func(q *Queues) { q.Main["x-single-active-consumer"] = true }},
}

// reject lets the broker count: 4.3 does not count a nack.
func reject(_ context.Context, _ *Session, d *amqp.Delivery) error { return d.Reject(true) }

// MostAttempts is how many attempts the way allows a message.
func (w *Way) MostAttempts() int { return cmp.Or(w.limit, Retries+1) }

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
	if err := s.in.PublishWithContext(ctx, "", s.Queue, false, false, again(d)); err != nil {
		return err
	}
	return d.Ack(false)
}

// countDeaths sends the last failure to the dead-letter queue itself, as the queue's dead-letter exchange is the loop.
func countDeaths(ctx context.Context, s *Session, d *amqp.Delivery) error {
	if died, ok := broker.ReadKnownHeaders(d.Headers, s.Queue, false).NewestDeath(); !ok || died.Count < Retries {
		return d.Nack(false, false)
	}
	if err := s.copy(ctx, s.Queue+DeadLetters, d); err != nil {
		return err
	}
	return d.Ack(false)
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
