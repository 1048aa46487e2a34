// Package consumer retries the messages of a RabbitMQ queue at its head, exactly as often as its settings say, and then
// dead-letters them.
//
// Package counter keeps the count of a message's failed attempts, so all consumers of a queue share it. Most programs
// use [Consumer]. Its Run keeps a session on the broker and gives each delivery to a Handler. The Handler's error
// decides between ack, retry and dead letter. [Consumer.Handle] does the same for one delivery, for programs with
// their own loop and for tests of a Handler.
//
// A delivery takes these steps: it is received; if it is a redelivery, the store lets it begin; the handler is called;
// a failed attempt is counted, and the delivery is held for its backoff; it is settled in the session that it came
// with. basic.ack and basic.nack have no reply. So a decision is in the store before it is sent, and is repeated if the
// message comes back.
package consumer

import (
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// DefaultDrainTimeout leaves a few of the 30 seconds that Kubernetes gives by default for the last settlements.
const DefaultDrainTimeout = 25 * time.Second

// A Consumer hands the messages of one queue to a Handler. The zero value of every field but the first three is useful.
// The fields must not be changed while Run or Consume runs; both may be called several times, also concurrently.
type Consumer struct {
	Queue   string  // to consume; must not be empty
	Handler Handler // must not be nil
	// must not be nil; shared by all consumers of the queue; its TTL at least the HandlerTimeout + 3/4 of the
	// ConsumerTimeout + a minute
	Counter Counter

	// MaxRetries is the number of retries after the first failure; if zero, 3; negative: none. A handler that always
	// fails runs MaxRetries+1 times. At most 1000. An operator may override it for a queue in the store.
	MaxRetries int

	// MaxAge dead-letters a message that fails later than MaxAge after its first failed attempt, by the store's clock
	// and whatever its count, with counter.CauseTooOld. A message does not become too old while it waits. An operator
	// may override MaxAge for a queue, and lift it for a message. If zero, there is no such limit. A negative one is
	// refused.
	MaxAge time.Duration

	// Breaker keeps an outage of a system that all handlers need from dead-lettering messages. Once this many messages
	// have failed, with no success in the fleet since, no failure is counted. After two more seconds without a success no
	// attempt begins, except three every three seconds in one process. The first success lets all go on. A failure that
	// is not counted has the outcome OutcomeNotCounted, and its delivery waits unacked. 8 is a good value; 2 to 100. If
	// zero, every failure is counted. The consumers of one queue may have different values. See docs/outages.md.
	Breaker int

	// Patience does the same for a queue with few messages, less than one a second, in which an outage may hit one message
	// alone. The last allowed attempt at a message waits up to 30 s for the success of another message. If there is none,
	// the attempt does not count, until Patience after the message's first failure. So with Ordered, a message that always
	// fails blocks its queue for that long. It needs a Breaker. If zero, the last allowed attempt always counts.
	Patience time.Duration

	Retry     RetryMode // if zero, RetryInPlace when Ordered, else RetryRequeue
	Isolation Isolation // of messages that may have killed a process: if zero, IsolationSuspects

	// Ordered promises that no message is handled before the one ahead of it in the queue succeeded or was dead-lettered,
	// across retries, crashes and takeovers. The queue must be a single-active-consumer queue; it may have any number of
	// consumers. With RetryInPlace, prefetched messages wait for the one that is retried. With RetryRequeue, Prefetch is
	// one. Settings that would break the order are refused. A handled message may be handled again if its ack was lost. A
	// consumer that the broker has given up may go on with prefetched messages until its heartbeat fails. Keep the
	// heartbeat short, or have the system that handlers write to refuse an old Attempt.Fence.
	Ordered bool

	// Lane returns the ordering key of a message, such as a customer's number, for an Ordered consumer with retries in
	// place. Messages of one lane are then handled in order, and lanes side by side, up to the Concurrency. If nil, there
	// is one lane. It must give a message the same lane every time, and may be called while handlers run. A message that
	// was replayed to the queue has its exchange and routing key of before. If Lane panics, the lane is "". A name over
	// 1 KiB is shortened by counter.LaneName.
	Lane func(amqp.Delivery) string

	// HoldLanes keeps the order of an Ordered consumer beyond dead letters. With a Lane, a message that is dead-lettered
	// blocks its lane: later messages of the lane are dead-lettered too, without an attempt and in their order
	// (counter.CauseBlocked). Other lanes go on. deadletter.Queue.ReplayLane publishes them again in their order, and the
	// lane is released once all are handled or dropped. All consumers of the queue must set it. A session costs five
	// round trips to the store. Each dead letter takes one step of its lane, and each replayed message two; a step
	// costs up to four round trips. A session that does not reach the store begins no attempt.
	//
	// Without a Lane, the message holds the whole queue, and nothing is dead-lettered: the queue is paused, the
	// message returns to its head, and counter.Admin.LimitMessage, Skip or Reset of the message decides and ends the
	// pause. After a Resume alone the message pauses the queue again, without an attempt; one without an id gets
	// another attempt. All consumers of the queue must set it: another one dead-letters the message.
	HoldLanes bool

	// Partitions is the number of partitions that Queue was declared with (topology.Spec.Partitions), 2 to 256; if zero,
	// Queue is one queue. The processes that consume Queue share its partitions through the store. Seconds after a process
	// joins, leaves or dies, their numbers of partitions differ by one at most. Messages of one routing key are attempted
	// in their order, by one process at a time, also while the store is away. Ordered must be set. If Lane is nil, it is
	// the routing key, so a process handles several keys at the same time. Concurrency is for all partitions of the
	// process together, and Prefetch for each of them. Counts, limits and pauses are those of Queue.
	Partitions int

	// Concurrency is the number of handlers that run at the same time; if zero, one; at most 65535. An Ordered consumer
	// without Lane has one.
	Concurrency int

	// Prefetch is the number of deliveries that the broker may have given out unsettled. If zero, it is twice the
	// Concurrency and 10 at least, so that messages which wait out their backoff, unsettled, do not keep others from being
	// delivered; and 30 at least if Ordered with RetryInPlace. A message requeued by a consumer that is not Ordered may be
	// overtaken by up to twice as many.
	//
	// One ack, or nack, is sent for a third of the Prefetch, or for fewer after about 1 ms. A dead letter that its lane
	// waits for is nacked immediately. Up to two thirds of the Prefetch can be handled and not acked for 5 ms, if they
	// wait for a message ahead of them. They may be handled again after a crash.
	Prefetch int

	// DelayAbove is the longest delay, of RetryAfter or Backoff, for which a delivery is held. A message that must wait
	// for longer is moved to a delay queue: a confirmed copy waits in another queue and comes back with the same count,
	// and the original is acked. If zero, it is one minute if the virtual host has the delay queues when a session
	// begins (topology.Spec.DelayQueues); else all deliveries wait unacked. If positive, it must be one minute to half the
	// ConsumerTimeout, and a session without the delay queues is refused. If negative, all deliveries wait unacked. A
	// positive DelayAbove cannot be combined with Ordered.
	DelayAbove time.Duration

	// Backoff returns how long a message waits after so many failed attempts (1 after the first); if nil,
	// DefaultBackoff. The wait continues if its consumer dies. A negative one is none.
	Backoff func(failed int) time.Duration

	// HandlerTimeout is how long one attempt may take; if zero, 5 minutes; at most half the ConsumerTimeout. At the
	// deadline the handler's context is cancelled. If the handler then returns nil, the message is acked; an error is
	// counted. A handler that has not returned after 2 s is abandoned and counted as failed; it goes on beside other
	// handlers. When ten times the Concurrency of such handlers run in the process, Run and Consume return ErrStuck.
	// If negative, there is no timeout, and the context has no deadline: a handler that hangs is never counted, and an
	// isolated one keeps all others in this process waiting.
	HandlerTimeout time.Duration

	// ConsumerTimeout is the broker's delivery acknowledgement timeout, which AMQP cannot report; if zero, 30 minutes,
	// RabbitMQ's default; a minute to 100 years. No delivery is held for more than half of it: one that waits longer,
	// for its backoff, the store or a free handler, is requeued, or left with its session. If the store must first close
	// its attempt and does not answer, a quarter is added.
	ConsumerTimeout time.Duration

	// DrainTimeout is how long handlers may go on after ctx is done, before their context is cancelled; if zero,
	// 25 s; negative: none. A partition that goes to another process waits for its handlers without this limit.
	DrainTimeout time.Duration

	// Key returns the id of a message in the queue; if nil, its MessageId. Two messages with one id are counted as
	// one. A message without an id cannot be counted: it gets one attempt at most. A failure or a redelivery
	// dead-letters it, even if no handler has seen it because a stopping consumer had prefetched it. Its reason is
	// logged, because no record keeps it.
	Key func(amqp.Delivery) string

	Check Check // of the queue, before a session consumes; the zero value refuses a topology that would lose a message

	Name     string   // names this process to operators; if empty, the host's name and the process id
	Observer Observer // gets every outcome; if nil, none
	Tracer   Tracer   // follows every attempt; if nil, none, at no cost

	// Logger gets the beginning and end of sessions, each dead letter at WARN and each retry at DEBUG. The beginning is at
	// WARN after another session ended or a dial failed, else at INFO. Dead letters and retries have the queue, the id,
	// the number of the attempt, the limit, the cause and the error. If it panics, the process ends. If nil, nothing is
	// logged.
	Logger *slog.Logger

	// Consuming is called with true when the broker has accepted the consumer, and with false when its session takes no
	// more messages: it ends, or the queue is paused. It is for a readiness probe: with an atomic.Bool, Consuming:
	// ready.Store. If nil, it is not called.
	Consuming func(bool)
}
