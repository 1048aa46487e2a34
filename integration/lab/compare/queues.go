package compare

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/publisher"
)

const (
	quorum      = "quorum"
	classic     = "classic"
	deadLetters = ".dlq"
	manyReturns = 1000 // of a quorum queue: it requeues to the head only if it has a limit
)

// queues are those of one run of a way: as safe as their type can be, so that what is lost is lost by the way.
type queues struct {
	name, kind, other string
	wait              time.Duration
	main, side        amqp.Table
	broker            *rig.Broker
}

func newQueues(broker *rig.Broker, w *way, kind, name string, wait time.Duration) *queues {
	q := &queues{name: name, kind: kind, other: w.other, wait: wait, broker: broker}
	q.main = q.deadLettering(name + deadLetters)
	if kind == quorum {
		q.main["x-delivery-limit"] = manyReturns
	}
	if w.set != nil {
		w.set(q)
	}
	return q
}

// deadLettering returns the arguments of a queue that dead-letters to another, at least once where that is possible.
func (q *queues) deadLettering(to string) amqp.Table {
	args := amqp.Table{"x-queue-type": q.kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}
	if q.kind == quorum {
		args["x-dead-letter-strategy"], args["x-overflow"] = "at-least-once", "reject-publish"
	}
	return args
}

// loop has the queue dead-letter into one that gives messages back after the wait.
func loop(q *queues) {
	q.main["x-dead-letter-routing-key"] = q.name + q.other
	q.side = q.deadLettering(q.name)
	q.side["x-message-ttl"] = max(q.wait.Milliseconds(), 1)
}

// delayed has the queue delay each retry by the wait, and once more for each return before it. Its limit counts
// rejects, and what is lost with its consumer.
func delayed(q *queues) {
	wait := max(q.wait.Milliseconds(), 1)
	q.main["x-delivery-limit"], q.main["x-delayed-retry-type"] = retries, "failed"
	q.main["x-delayed-retry-min"], q.main["x-delayed-retry-max"] = wait, retries*wait
}

func aside(q *queues) { q.side = amqp.Table{"x-queue-type": q.kind} }

// names are those of all queues, the dead-letter queue last.
func (q *queues) names() []string {
	if q.other == "" {
		return []string{q.name, q.name + deadLetters}
	}
	return []string{q.name + q.other, q.name, q.name + deadLetters}
}

func (q *queues) declare() error {
	return q.broker.OnChannel(func(ch *amqp.Channel) error {
		all := map[string]amqp.Table{q.name: q.main, q.name + deadLetters: {"x-queue-type": quorum}}
		if q.other != "" {
			all[q.name+q.other] = q.side
		}
		for name, args := range all {
			if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
				return fmt.Errorf("declaring queue %s: %w", name, err)
			}
		}
		return nil
	})
}

func (q *queues) remove() error {
	return q.broker.OnChannel(func(ch *amqp.Channel) (err error) {
		for _, name := range q.names() {
			_, e := ch.QueueDelete(name, false, false, false)
			err = errors.Join(err, e)
		}
		return err
	})
}

// depths counts the messages that are ready, apart from dead letters, and the dead letters.
func (q *queues) depths() (ready, dead int, err error) {
	err = q.broker.OnChannel(func(ch *amqp.Channel) error {
		for _, name := range q.names() {
			found, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			if err != nil {
				return err
			}
			if name == q.name+deadLetters {
				dead = found.Messages
			} else {
				ready += found.Messages
			}
		}
		return nil
	})
	return ready, dead, err
}

// publish publishes the jobs and waits for all confirms.
func (q *queues) publish(ctx context.Context, jobs []job) error {
	pub, err := publisher.New(publisher.BufferedDialer(q.broker.URL, amqp.Config{}),
		nil) //nolint:contextcheck // Close ends it
	if err != nil {
		return err
	}
	all := make([]publisher.Message, len(jobs))
	for i, j := range jobs {
		all[i] = publisher.Message{Key: q.name, Publishing: amqp.Publishing{MessageId: j.id(), Body: j.body()}}
	}
	return errors.Join(pub.PublishAll(ctx, all), pub.Close())
}

// collect takes everything out of the queues and writes it down. It reports how many messages there were.
func (q *queues) collect(log *audit.Log) (n int, err error) {
	for _, name := range q.names() {
		kind := left
		if name == q.name+deadLetters {
			kind = audit.Dead
		}
		err := q.broker.Drain(name, func(d *amqp.Delivery) {
			n++
			log.Write(audit.Event{Kind: kind, ID: d.MessageId, Copy: copyOf(d)})
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
