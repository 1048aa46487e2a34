// Package publisher publishes messages that a fleet of consumers can count:
// each has a MessageId, is persistent, mandatory and confirmed.
//
// Failures are counted by MessageId, and a message without one gets a single
// attempt. [Stamp] sets it, a UUIDv7, where there is none; a [Publisher] does so
// for every message.
//
// # What an error means
//
// Publish returns nil only when the broker has confirmed the message and did
// not return it. Any error is an [*Error]. Its Undecided field answers the
// question that matters to the caller: true, and the message may or may not be
// in a queue, so publish it again with the id that came back (consumers then
// may see it twice, under one id); false, and it is in no queue.
//
//   - [ErrUnroutable]: no queue was bound that takes it.
//   - [ErrNacked]: a queue refused it, or could not keep it.
//   - [ErrRefused]: the broker closed the channel over it (no such exchange,
//     no permission, too large), or refuses the connection.
//   - [ErrInvalid]: it cannot be sent as AMQP; nothing was sent.
//   - [ErrConnectionLost]: no confirm came before the connection or the
//     channel was gone.
//   - [ErrClosed]: the Publisher is closed; nothing was sent.
//   - the error of ctx: the caller stopped waiting.
//
// # Connections
//
// A Publisher has one connection, its own, and one channel on it. A memory or
// disk alarm makes RabbitMQ stop reading from every connection that publishes;
// acknowledgements that a consumer sends on the same connection would wait
// with it. The connection is dialled for the first message, and again, with a
// backoff of 100 ms to 5 s, for the first message after it is lost; messages
// that were not sent yet wait for it.
package publisher
