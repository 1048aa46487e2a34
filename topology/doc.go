// Package topology declares the queue that a fleet of consumers retries from,
// with the way its dead letters take, and checks such a queue before anything
// is consumed from it.
//
// Two things must hold of a queue whose messages are retried at its head and
// then dead-lettered. A requeued message must come back to its place, not to
// the tail and not to nowhere; which of the three happens depends on the
// version of RabbitMQ, the type of the queue and its delivery limit. And a
// rejected message must reach a dead-letter queue: with no dead-letter
// exchange, one that does not exist, or one with nothing bound to it, RabbitMQ
// drops the message and tells nobody.
//
// [Declare] makes a queue for which both hold. [Check] refuses one for which
// they do not, or cannot be shown to, and says what to change. [Inspect] lists
// the findings instead. For operators, [Examine] looks closer, at what goes on
// in the queue and at where its dead letters end; [Probe] proves it on scratch
// queues, [Room] says how many retries a queue allows, and [List] finds the
// queues that are worth a look.
//
// What is said of RabbitMQ here was measured on single nodes of 3.10.8, 4.0.5
// and 4.3.6.
package topology
