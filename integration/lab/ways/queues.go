package ways

import (
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/rig"
)

// Types of queues, and an ending.
const (
	Quorum      = "quorum"
	Classic     = "classic"
	DeadLetters = ".dlq" // ends the name of a dead-letter queue
	manyReturns = 1000   // of a quorum queue: it requeues to the head only if it has a limit
)

// Queues are those of one run of a way. They are as safe as their type can be, so that only the way loses messages.
type Queues struct {
	Name        string
	Main        amqp.Table // arguments of the main queue
	kind, other string
	wait        time.Duration
	side        amqp.Table
	broker      *rig.Broker
}

// NewQueues returns the queues of a way on a type of queue. It waits before a retry, where it can.
func NewQueues(broker *rig.Broker, w *Way, kind, name string, wait time.Duration) *Queues {
	q := &Queues{Name: name, kind: kind, other: w.other, wait: wait, broker: broker}
	q.Main = q.deadLettering(name + DeadLetters)
	if kind == Quorum {
		q.Main["x-delivery-limit"] = manyReturns
	}
	if w.set != nil {
		w.set(q)
	}
	return q
}

// deadLettering returns the arguments of a queue that dead-letters to another, at least once where that is possible.
func (q *Queues) deadLettering(to string) amqp.Table {
	args := amqp.Table{"x-queue-type": q.kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}
	if q.kind == Quorum {
		args["x-dead-letter-strategy"], args["x-overflow"] = "at-least-once", "reject-publish"
	}
	return args
}

// loop has the queue dead-letter into one that gives messages back after the wait.
func loop(q *Queues) {
	q.Main["x-dead-letter-routing-key"] = q.Name + q.other
	q.side = q.deadLettering(q.Name)
	q.side["x-message-ttl"] = max(q.wait.Milliseconds(), 1)
}

// delayed has the queue delay each retry by the wait, and once more for each return before it. Its limit counts
// rejects, and deliveries that are lost with their consumer.
func delayed(q *Queues) {
	wait := max(q.wait.Milliseconds(), 1)
	q.Main["x-delivery-limit"], q.Main["x-delayed-retry-type"] = Retries, "failed"
	q.Main["x-delayed-retry-min"], q.Main["x-delayed-retry-max"] = wait, Retries*wait
}

func aside(q *Queues) { q.side = amqp.Table{"x-queue-type": q.kind} }

// Names are those of all queues, the dead-letter queue last.
func (q *Queues) Names() []string {
	if q.other == "" {
		return []string{q.Name, q.Name + DeadLetters}
	}
	return []string{q.Name + q.other, q.Name, q.Name + DeadLetters}
}

// Declare declares them.
func (q *Queues) Declare() error {
	return q.broker.OnChannel(func(ch *amqp.Channel) error {
		all := map[string]amqp.Table{q.Name: q.Main, q.Name + DeadLetters: {"x-queue-type": Quorum}}
		if q.other != "" {
			all[q.Name+q.other] = q.side
		}
		for name, args := range all {
			if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
				return fmt.Errorf("declaring queue %s: %w", name, err)
			}
		}
		return nil
	})
}

// Remove deletes them.
func (q *Queues) Remove() error {
	return q.broker.OnChannel(func(ch *amqp.Channel) (err error) {
		for _, name := range q.Names() {
			_, e := ch.QueueDelete(name, false, false, false)
			err = errors.Join(err, e)
		}
		return err
	})
}

// Depths counts the messages that are ready, apart from dead letters, and the dead letters.
func (q *Queues) Depths() (ready, dead int, err error) {
	err = q.broker.OnChannel(func(ch *amqp.Channel) error {
		for _, name := range q.Names() {
			found, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			if err != nil {
				return err
			}
			if name == q.Name+DeadLetters {
				dead = found.Messages
			} else {
				ready += found.Messages
			}
		}
		return nil
	})
	return ready, dead, err
}

// Take takes the messages that are ready out of the queues, and says which are dead letters.
func (q *Queues) Take(take func(d *amqp.Delivery, dead bool)) error {
	for _, name := range q.Names() {
		err := q.broker.Drain(name, func(d *amqp.Delivery) { take(d, name == q.Name+DeadLetters) })
		if err != nil {
			return err
		}
	}
	return nil
}
