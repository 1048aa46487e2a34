// Package deadletter browses, replays and drops dead letters.
//
// A dead letter says where it died, and the counter's record says why: [Queue.Browse] joins the two. [Queue.Replay]
// publishes dead letters again. Each keeps its MessageId and gets all its attempts. Replay takes a message off the
// dead-letter queue only once the broker has confirmed its copy. [Queue.Drop] passes dead letters to a function that
// stores them, and then takes them off.
//
// # What reading costs
//
// AMQP cannot read a message and leave it untouched: a message is delivered and returned. On a classic queue that only
// sets its redelivered flag. On a quorum queue it counts against the delivery limit, at which the broker deletes the
// message. Depending on version and limit the message returns to the tail. [Open] finds out which calls are safe. A
// Queue refuses the others with [ErrUnsafe].
//
// The order of the queue is kept. Everything is delivered to the consumers of one channel and returned by closing it.
// Of several ways only this one kept the order of quorum queues (10 to 2,500 messages on 3.10.8, 4.0.5 and 4.3.6,
// 100,000 on 4.3.6). basic.get, basic.cancel, and a nack for all or each did not. A queue with another consumer is
// refused with [ErrBusy], so two operators do not disturb each other.
//
// A quorum queue puts a returned message behind those that were returned before. So when a Replay or a Drop of
// everything ends early, it takes all that a Browse has returned, and all return in their order (500 messages, stopped
// every 70, on 3.10 and 4.3.6). If the process is killed, or loses its connection, the messages that it held change
// their positions. Those are two windows at most, or all messages read so far by a Browse or a Filter that picks. The
// same holds where Handling allows no reading.
//
// # Locks
//
// While a Browse, Replay or Drop holds messages, its connection has an exclusive queue: the name of the dead-letter
// queue with ".strikes-lock" after it. It keeps other calls off before anything is delivered to them. Without the
// permission to configure that queue there is no lock. Calls that begin at the same moment may then all return
// [ErrBusy], and the messages that they received return behind others.
//
// # What a crash costs
//
// No message is lost. If a process is killed, at most Window messages may be both in their queue and still dead
// letters. The next replay publishes them again, with the same MessageId and the same value of [GenerationHeader]. A
// dead letter without a MessageId gets a new one each time. The tombstones of messages that were taken off in the last
// half second may not say so. A broker that is killed may bring back dead letters that were acknowledged a moment
// before.
package deadletter
