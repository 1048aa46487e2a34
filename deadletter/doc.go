// Package deadletter browses, replays and drops what was dead-lettered.
//
// A dead letter tells where it died, and the counter's record why: [Queue.Browse]
// joins the two. [Queue.Replay] publishes dead letters again, each under its own
// MessageId and with a full budget of retries, and takes one off the dead-letter
// queue only once the broker has confirmed its copy. [Queue.Drop] gives dead
// letters to a function that keeps them, and then takes them off.
//
// # What a look costs
//
// AMQP has no way to read a message and leave it untouched: it is delivered, and
// returned. On a classic queue that sets its redelivered flag and nothing else.
// On a quorum queue it counts against the delivery limit, at which the broker
// deletes the message; and depending on version and limit the message returns to
// the tail. [Nature.Handling] decides what may be done; a Queue refuses the rest
// with [ErrUnsafe]. The order of the queue is kept: everything is delivered to
// the consumers of one channel and returned by closing it, the only way of
// several that kept the order of quorum queues (10 to 2,500 messages on 3.10.8,
// 4.0.5 and 4.3.6, 100,000 on 4.3.6; basic.get, basic.cancel, and a nack for all
// or each, did not). Where anybody consumes from the queue already it is refused
// with [ErrBusy], so two operators do not disturb each other.
//
// What a quorum queue gets back goes behind what it got back before. So when a
// Replay or a Drop of everything ends early, it takes all that a look has returned
// before it, and all return in their order (500 messages, stopped every 70, on
// 3.10 and 4.3.6). If the process is killed, or its connection lost, what it held
// changes its place: two windows at most, and of a look, or of a Filter that picks,
// all that it had read if it had not come to the end. So it is where Handling
// allows no look.
//
// # Locks
//
// While a Browse, Replay or Drop holds messages, its connection has an exclusive
// queue, named like the dead-letter queue with ".strikes-lock" after it. It keeps
// others off before anything is delivered to them. Without the permission
// to configure that queue there is no lock: operations that begin at the same
// moment may then all return [ErrBusy], and the messages that were delivered to
// them return behind others.
//
// # What a crash costs
//
// Nothing is lost. Of a process that is killed at any moment, at most Window
// messages may be in their queue and still be dead letters. The next replay
// publishes them once more, with the same MessageId and the same value of
// [GenerationHeader], and names them: [Result].Again. A dead letter without a
// MessageId gets a new one each time. What was taken off in the last half second
// may be missing in counter.Buried. If the broker is killed it may bring back
// dead letters that were acknowledged a moment before.
package deadletter
