// Package publisher publishes messages that a fleet of consumers can count: each has a MessageId, is persistent,
// mandatory and confirmed.
//
// Consumers count failed attempts by MessageId. A message without one gets a single attempt. [Stamp] sets a missing
// MessageId to a UUIDv7; a [Publisher] stamps every message.
//
// # What an error means
//
// Publish returns nil only when the broker has confirmed the message and did not return it. Any error is an [*Error].
// Its Undecided field says what to do. If it is true, the message may or may not be in a queue: publish it again with
// the returned id. Consumers may then receive it twice, under one id. If it is false, the message is in no queue. The
// error wraps [ErrUnroutable], [ErrNacked], [ErrRefused], [ErrInvalid], [ErrConnectionLost] or [ErrClosed], or the
// error of a ctx that ended the wait. Each of them says when it is returned.
//
// # Connections
//
// A Publisher has a connection of its own with one channel. While a memory or disk alarm lasts, RabbitMQ reads nothing
// from connections that publish, so a consumer's acknowledgements would wait on a shared connection. The first message
// dials. After the connection is lost the next message dials again, with a backoff that grows from 100 ms to 5 s. Each
// wait is shortened or lengthened by up to a half at random. Messages that are not sent yet wait for the connection.
package publisher
