package consumer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
)

// steady is how long a session has to last before the next one is tried without delay.
const steady = 10 * time.Second

// The waits between two sessions on a connection or a partition.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 2 * time.Second
)

// tellAgain is how often Run logs that it still has no connection.
const tellAgain = time.Minute

// refusedDelay is the longest wait after a host has refused a connection.
const refusedDelay = 500 * time.Millisecond

// electing is how long the dead letters of a session that follows another are held: the broker may have ended and left
// its queues to others. Until a dead-letter queue that is a quorum queue has a leader again, RabbitMQ drops the
// messages that a classic queue would hand over to it.
const electing = 3 * time.Second

// starting is how long dead letters are held after the last attempt to consume that failed: the broker may just have
// started. Then a dead-letter queue has no leader until it has replayed its log. After eleven restarts of make lanes,
// that took 5.5 s on 3.10.8 and 6.9 s on 4.3.6. The check of the route sees the replay, and not the half second from it
// to the leader.
const starting = 10 * time.Second

// Run keeps one session on the broker until ctx is done: it dials, consumes, and after a lost session dials again,
// after about 100 ms at first and 2 s in the end, or half a second where nothing listens. Every session has a
// connection of its own, which Run closes. All connections must lead to the same virtual host, because operators pause
// the queue in that of the first.
//
// It returns nil once ctx is done and everything is settled or back in the queue. It returns ErrUncleanStop if ctx is
// done before a lost session has ended: the last acks may be lost then. A session that ends before is logged, and its
// messages return to the queue. While no connection can be made, the reason is logged at once, then once a minute.
//
// It returns an error at once for a field that is refused, and for ErrStuck. Until a first session has consumed, it
// also does so for refused credentials, for a queue or a topology that the broker or Check refuses, and for a store
// that cannot count. Later only ErrStuck and ctx end it, because a queue that is missing while a broker restarts comes
// back. That begins once a session has consumed, or has lost its connection during a pause or without a partition.
// Credentials count as refused after two dials in a row that were closed after 2 s or more, as RabbitMQ does. A socket
// that is closed sooner in the handshake was cut, and is dialled again.
//
// In all sessions but the first, dead letters are held for 3 s, and until 10 s after the last attempt to consume that
// failed, because a broker that has just started may drop them. After a session that ended with ErrUndecodable the next
// sessions prefetch one message, until a session has lasted 10 s and receives another message.
func (c *Consumer) Run(ctx context.Context, dial func(context.Context) (*amqp.Connection, error)) error {
	if dial == nil {
		return fmt.Errorf("consumer: queue %q: dial is nil: it opens a connection for each session", c.Queue)
	}
	log, after := c.logger(), newLate()
	defer after.close()
	var kept rooms
	defer func() { kept.close() }()
	consumed := false
	var failed time.Time // the last attempt to consume that failed
	var told time.Time   // when it last logged that it has no connection
	var err error
	careful, tries := false, 0
	for n := 1; ; n++ {
		began, before, connected, serving := time.Now(), err, false, false
		err = c.runSession(ctx, dial, &kept, func(s *session) {
			connected = true
			s.late, s.deadLettersFrom = after, deadLettersFrom(n, time.Now(), failed)
			s.consuming, s.again = func() { consumed, serving = true, true }, n > 1
			if careful {
				s.beCareful()
			}
		})
		if ctx.Err() != nil {
			if errors.Is(err, ErrUncleanStop) {
				return err
			}
			return nil
		}
		consumed = consumed || errors.Is(err, errWaitLost)
		if errors.Is(err, ErrStuck) || !consumed && isRefused(err, before) {
			return err
		}
		if !serving {
			failed = time.Now()
		}
		careful = decideCareful(careful, err)
		if tries++; time.Since(began) > steady {
			tries = 1
		}
		delay := redialDelay(jitter(doubled(firstWait, lastWait, tries)), err)
		switch {
		case connected:
			told = time.Time{}
			log.Log(ctx, levelOf(err), "session ended; another follows", "queue", c.Queue, "in", delay, "error", err)
		case time.Since(told) > tellAgain:
			told = time.Now()
			log.Warn("no connection to the broker; dialling goes on", "queue", c.Queue, "error", err)
		}
		if !pause.For(ctx, delay) {
			return nil
		}
	}
}

// Consume hands deliveries to the Handler on a channel of its own on conn until ctx is done or the session ends, and
// closes that channel. It never closes conn.
//
// While an operator pauses the queue (counter.Admin.Pause), it has no channel and takes no deliveries. Handlers that
// run when the pause begins end as at a stop. It asks the store once a second. If the store does not reply, its last
// reply stands.
//
// When ctx is done, Consume takes no more deliveries and waits up to DrainTimeout for handlers. A success is acked. A
// failure is not counted, and its message returns to the queue. Consume returns nil if all acks have reached the
// broker. Otherwise it returns the error that ended the session, or the field or topology that is refused. Deliveries
// that were not settled return to the queue and are not counted. A connection that recovers by itself
// (amqp.Config.Recovery) is refused. It keeps its channels and restarts their delivery tags, so a late ack would
// settle another message.
//
// Consume also returns an error if the broker does not reply when the session begins: to the Check for a minute, to
// other requests for 10 s, and to either for 1 s once ctx is done. A request cannot be cancelled. Its goroutine ends
// with the reply or with conn, so close conn.
func (c *Consumer) Consume(ctx context.Context, conn *amqp.Connection) error {
	var kept rooms
	defer func() { kept.close() }()
	return c.onConnection(ctx, conn, &kept, func(*session) {})
}

// deadLettersFrom returns when the nth session of Run, or of a partition, may send dead letters. failed is when an
// attempt to consume failed last.
func deadLettersFrom(n int, now, failed time.Time) time.Time {
	if n == 1 {
		return now
	}
	return now.Add(max(electing, starting-now.Sub(failed)))
}

// redialDelay is how long to wait after a session that ended with err. A host that refuses connections is not burdened
// by one more, and the broker on it may be back at any moment.
func redialDelay(delay time.Duration, err error) time.Duration {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return min(delay, jitter(refusedDelay))
	}
	return delay
}

// runSession dials and consumes on one connection, with sessions that setUp prepares. It returns soon after ctx is done
// even if dial does not heed that, as amqp.Dial cannot: it waits 30 s for a broker that accepts and is silent.
func (c *Consumer) runSession(ctx context.Context, dial func(context.Context) (*amqp.Connection, error),
	kept *rooms, setUp func(*session)) error {
	conn, err := bound.Await(ctx, math.MaxInt64, func() (*amqp.Connection, error) {
		return broker.Connect(ctx, dial)
	}, broker.HangUp)
	if err != nil {
		return fmt.Errorf("consumer: queue %q: dialling: %w", c.Queue, err)
	}
	defer broker.HangUpWithin(conn, closeTimeout)
	return c.onConnection(ctx, conn, kept, setUp)
}

// onConnection is Consume with sessions that setUp prepares: each pause ends one. It keeps the rooms of the last one.
func (c *Consumer) onConnection(ctx context.Context, conn *amqp.Connection, kept *rooms,
	setUp func(*session)) error {
	for {
		if err := c.validate(conn); err != nil {
			return refusal{err}
		}
		s := newSession(c.withDefaults(), conn.Config.Vhost, *kept)
		s.route, *kept = s.newRoute(conn), s.rooms
		setUp(s)
		err := s.checked(ctx, conn)
		again := false
		if err == nil {
			again, err = s.amidRooms(ctx, conn, func(ctx context.Context) error { return s.consume(ctx, conn) })
		}
		if !again || err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// amidRooms calls consume with the rooms around it, in a context that s.end ends. It reports whether another session on
// conn is to follow.
func (s *session) amidRooms(ctx context.Context, conn *amqp.Connection,
	consume func(context.Context) error) (again bool, err error) {
	session, end := context.WithCancel(ctx)
	defer end()
	s.end = end
	err = s.rooms.around(session, conn, consume)
	return session.Err() != nil && ctx.Err() == nil, err
}

// isRefused reports whether the broker, the store or a check refused, as opposed to being out of reach; before is the
// error of the previous session.
func isRefused(err, before error) bool {
	return errors.As(err, new(refusal)) || broker.Permanent(err, before)
}
