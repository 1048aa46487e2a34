package broker

import amqp "github.com/rabbitmq/amqp091-go"

// Arguments of a queue.
const (
	ArgType               = "x-queue-type"
	ArgDeadLetterExchange = "x-dead-letter-exchange"
	ArgDeadLetterKey      = "x-dead-letter-routing-key"
	ArgStrategy           = "x-dead-letter-strategy"
	ArgOverflow           = "x-overflow"
	ArgDeliveryLimit      = "x-delivery-limit"
	ArgSingleActive       = "x-single-active-consumer"
	ArgMaxPriority        = "x-max-priority"
	ArgDelayedRetry       = "x-delayed-retry-type"
	ArgTTL                = "x-message-ttl"
	ArgExpires            = "x-expires"
	ArgMaxLength          = "x-max-length"
	ArgMaxLengthBytes     = "x-max-length-bytes"
	ArgConsumerTimeout    = "x-consumer-timeout"
)

// ArgPriority is an argument of a consumer: its priority; absent, 0.
const ArgPriority = "x-priority"

// DefaultDeliveryLimit is what a queue is declared with. It is far above any number of retries. It still ends the loop
// of a message that no client can decode, each delivery of which costs the connection.
const DefaultDeliveryLimit = 1000

// DeadLetterLimit is the delivery limit of a dead-letter queue: dead letters may be read any number of times. A quorum
// queue without a limit deletes a message at the 21st return (4.0.5, 4.3.6), and one with the limit -1 at the first
// (3.10.8). All versions take a positive limit alike, and return the message to the head of the queue.
const DeadLetterLimit = 1<<31 - 1

// ExchangeFor names the dead-letter exchange that a queue gets if nothing else is asked for.
func ExchangeFor(queue string) string { return queue + ".dlx" }

// DeadLetterQueueFor names the dead-letter queue that a queue gets if nothing else is asked for.
func DeadLetterQueueFor(queue string) string { return queue + ".dlq" }

// DeadLetterArguments are those of a dead-letter queue.
func DeadLetterArguments() amqp.Table {
	return amqp.Table{ArgType: Quorum, ArgDeliveryLimit: int64(DeadLetterLimit)}
}

// Merge copies tables into a new one; later ones win.
func Merge(tables ...amqp.Table) amqp.Table {
	out := amqp.Table{}
	for _, t := range tables {
		for k, v := range t {
			out[k] = v
		}
	}
	return out
}
