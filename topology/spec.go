package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/setting"
)

// Type is a type of queue.
type Type string

const (
	// Quorum queues are replicated. They keep a dead letter until the dead-letter queue has confirmed it.
	Quorum Type = broker.Quorum

	// Classic queues live on one node and dead-letter at most once: a dead letter is lost if its queue cannot be reached
	// at that moment. Their dead-letter queue is a quorum queue too. It misses dead letters that come before it has a
	// leader, after a start of the broker: 8 of 121 in eight restarts of 3.10.8. A classic dead-letter queue keeps dead
	// letters in memory, and a killed broker lost them: 173 of 8,200 on 3.10.8, 3,455 on 4.0.5 and 4,263 on 4.3.6 in six
	// kills each. A quorum one missed 1, none and none.
	Classic Type = broker.Classic
)

// Spec describes a queue and its dead-letter route.
type Spec struct {
	Queue string // must not be empty
	Type  Type   // if empty, Quorum

	// SingleActiveConsumer lets one consumer at a time get messages, which strict order needs.
	SingleActiveConsumer bool

	// DeadLetterExchange is a fanout for this queue alone: two queues that share one would each get the other's dead
	// letters. If empty, Queue + ".dlx".
	DeadLetterExchange string

	// DeadLetterQueue is a quorum queue, whatever Type is. If empty, Queue + ".dlq".
	DeadLetterQueue string

	// DeliveryLimit is how many returns of a message a quorum queue itself allows before it dead-letters it; if zero,
	// 1000. It must be well above MaxRetries: up to RabbitMQ 4.2 every return counts, and on all versions that of a lost
	// connection counts for every message it had prefetched. Classic queues have none.
	DeliveryLimit int

	// DelayQueues also declares the delay queues, in which messages wait for retries after long delays. All queues of the
	// virtual host share its delay queues: fanout exchanges and quorum queues named strikes.delay.1m, 10m, 1h, 6h and
	// 24h. They return messages to the exchange strikes.delay, to which Queue is bound. If Queue was deleted, they go to
	// the queue strikes.delay.lost. DelayQueues cannot be combined with SingleActiveConsumer, because other messages
	// overtake one that waits.
	DelayQueues bool

	// Partitions shares an ordered queue among consumers, see consumer.Consumer.Partitions: 2 to 256; if zero, Queue is
	// one queue. Declare then makes the single-active-consumer queues Queue.0 to Queue.N-1, which have one dead-letter
	// route, and the fanout exchange Queue, to which publishers publish. Messages of one routing key reach one partition.
	// From RabbitMQ 4.3 on an exchange of type x-modulus-hash chooses it; before, the publisher does
	// (publisher.Partitions). No queue is named Queue. DelayQueues is refused. Repartition changes the number.
	Partitions int
}

func (s Spec) withDefaults() Spec {
	s.Type = cmp.Or(s.Type, Quorum)
	s.DeadLetterExchange = cmp.Or(s.DeadLetterExchange, broker.ExchangeFor(s.Queue))
	s.DeadLetterQueue = cmp.Or(s.DeadLetterQueue, broker.DeadLetterQueueFor(s.Queue))
	if s.Type == Quorum {
		s.DeliveryLimit = cmp.Or(s.DeliveryLimit, broker.DefaultDeliveryLimit)
	}
	return s
}

// Validate returns nil if Declare can ask a broker for s. Otherwise it returns a [*FieldError], or an error about a
// name. Declare validates first.
func (s Spec) Validate() error {
	s = s.withDefaults()
	if err := s.validate(); err != nil {
		return fmt.Errorf("topology: %w", err)
	}
	names := []string{s.Queue, s.DeadLetterExchange, s.DeadLetterQueue}
	if s.Partitions > 0 {
		names = append(names, broker.Partition(s.Queue, s.Partitions-1), broker.HashExchange(s.Queue, s.Partitions),
			lockOf(s.Queue))
	}
	for _, name := range names {
		if err := broker.CheckName(name); err != nil {
			return fmt.Errorf("topology: %w", err)
		}
		if name == broker.DelayExchange || broker.IsDelayQueue(name) {
			return fmt.Errorf("topology: %q is a name of the delay queues, which return their messages: choose another", name)
		}
	}
	return nil
}

func (s Spec) validate() error {
	switch {
	case s.Queue == "":
		return setting.New("Queue", "", "the name of the queue")
	case strings.HasPrefix(s.Queue, "amq."):
		return setting.New("Queue", s.Queue, "a name that does not begin with amq., which the broker reserves")
	case s.Type != Quorum && s.Type != Classic:
		return setting.New("Type", string(s.Type), fmt.Sprintf("%q or %q", Quorum, Classic))
	case s.DelayQueues && s.SingleActiveConsumer:
		return setting.New("DelayQueues", true, "false with SingleActiveConsumer, because a delayed message would be "+
			"overtaken")
	case s.Partitions > 0 && s.DelayQueues:
		return setting.New("DelayQueues", true, "false with Partitions, because a delayed message would be overtaken")
	case s.Partitions > 0 && (s.DeadLetterExchange == s.Queue ||
		s.DeadLetterExchange == broker.HashExchange(s.Queue, s.Partitions)):
		return setting.New("DeadLetterExchange", s.DeadLetterExchange,
			"another exchange than those to the partitions, or dead letters come back")
	case s.Partitions > 0 && slices.Contains(broker.Partitions(s.Queue, s.Partitions), s.DeadLetterQueue):
		return setting.New("DeadLetterQueue", s.DeadLetterQueue, "another queue than a partition")
	case s.DeadLetterQueue == s.Queue:
		return setting.New("DeadLetterQueue", s.DeadLetterQueue, "another queue than the source queue")
	case s.DeliveryLimit < 0:
		return setting.New("DeliveryLimit", s.DeliveryLimit, fmt.Sprintf("well above the number of retries, or 0 for %d",
			broker.DefaultDeliveryLimit))
	case s.Type == Classic && s.DeliveryLimit != 0:
		return setting.New("DeliveryLimit", s.DeliveryLimit, "0 for a classic queue, which has none")
	}
	return checkPartitions(s.Partitions)
}

func checkPartitions(n int) error {
	if n == 0 || n >= broker.FewestPartitions && n <= broker.MostPartitions {
		return nil
	}
	return setting.New("Partitions", n, fmt.Sprintf("%d to %d, or 0 for one queue", broker.FewestPartitions,
		broker.MostPartitions))
}

// arguments of the queue itself.
func (s Spec) arguments() amqp.Table {
	args := amqp.Table{
		broker.ArgType:               string(s.Type),
		broker.ArgDeadLetterExchange: s.DeadLetterExchange,
	}
	if s.SingleActiveConsumer || s.Partitions > 0 {
		args[broker.ArgSingleActive] = true
	}
	if s.Type == Quorum {
		args[broker.ArgDeliveryLimit] = int64(s.DeliveryLimit)
		// At-least-once needs both: without reject-publish it silently falls back to at-most-once.
		args[broker.ArgStrategy] = "at-least-once"
		args[broker.ArgOverflow] = "reject-publish"
	}
	return args
}
