package deadletter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// afterglow is how long a consumer may still be counted that has ended.
const afterglow = 3 * time.Second

// passedOn is how many settlements a channel passes on to a quorum queue without
// an answer.
const passedOn = 32

// countedSince is after how long it is worth to count once more what is ready.
const countedSince = 300 * time.Millisecond

// session holds messages of the queue: those delivered and not settled return
// to their places when it is closed. For one goroutine.
type session struct {
	queue, vhost string
	classic      bool
	conn         *amqp.Connection
	ch           *amqp.Channel
	prefetch     int // zero: any number
	bounds       Bounds
	everything   bool // no filter picks
	consumers    []<-chan amqp.Delivery
	room         int   // deliveries that the newest consumer can still bring, if any number may be held
	read, bytes  int   // deliveries until now, and their bodies
	returns      int64 // of the last delivery, as a quorum queue counts them
	closed       chan *amqp.Error
	acks         int // sent, and maybe not with the queue yet
	ready        int // messages in the queue when it began
	drained      sync.WaitGroup
}

// open consumes from the queue, alone; of what is delivered at most prefetch
// messages are not settled, zero: any number.
//
// Quorum queues do not enforce that a consumer is exclusive, so it looks for
// others, before and after.
func (q *Queue) open(ctx context.Context, prefetch int) (*session, error) {
	return q.start(ctx, &session{prefetch: prefetch})
}

func (q *Queue) start(ctx context.Context, s *session) (*session, error) {
	conn, err := q.Dial(ctx)
	if err != nil {
		return nil, err
	}
	if conn.Config.Recovery != nil {
		hangUp(conn)
		return nil, errors.New("deadletter: the connection has automatic recovery on: leave amqp.Config.Recovery nil")
	}
	s.queue, s.classic, s.vhost, s.conn = q.Name, q.Handling.InPlace, conn.Config.Vhost, conn
	stop := context.AfterFunc(ctx, func() { hangUp(conn) })
	defer stop()
	if err := s.begin(ctx); err != nil {
		err = s.cause(err)
		hangUp(conn)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, explain(q.Name, err)
	}
	return s, nil
}

func (s *session) begin(ctx context.Context) error {
	defer onTime(s.conn)()
	var err error
	if s.ch, err = s.conn.Channel(); err != nil {
		return err
	}
	s.closed = s.ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := s.lock(ctx); err != nil {
		return err
	}
	if s.ready, err = quiet(ctx, s.ch, s.queue); err != nil {
		return err
	}
	if err := s.consume(); err != nil {
		return err
	}
	after, err := state(s.ch, s.queue)
	if err == nil && after.Consumers > 1 {
		err = &busyError{amqp.Queue{Consumers: after.Consumers - 1, Messages: after.Messages}}
	}
	return err
}

// quiet returns how many messages are ready, once nobody consumes from the
// queue. A consumer that has just ended, ours as well, is counted for a moment,
// and what it held is not.
func quiet(ctx context.Context, ch *amqp.Channel, queue string) (int, error) {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for begun := time.Now(); ; {
		now, err := state(ch, queue)
		switch {
		case err != nil:
			return 0, err
		case now.Consumers == 0:
			return now.Messages, nil
		case time.Since(begun) > afterglow:
			return 0, &busyError{now}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// consume adds a consumer. Their tags are in order: it is by them that a quorum
// queue returns what several consumers of a channel held.
func (s *session) consume() error {
	if s.prefetch > 0 {
		return s.add(s.prefetch, s.classic) // others do not enforce it
	}
	s.room = s.bounds.next(s.everything, s.read, s.ready, s.size(), len(s.consumers))
	return s.add(s.room, s.classic && len(s.consumers) == 0 && s.ready <= s.room)
}

// add adds a consumer that holds at most prefetch messages.
func (s *session) add(prefetch int, alone bool) error {
	if err := s.ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	tag := fmt.Sprintf("strikes-dead-%06d", len(s.consumers))
	deliveries, err := s.ch.Consume(s.queue, tag, false, alone, false, false, nil)
	if err != nil {
		return err
	}
	s.consumers = append(s.consumers, deliveries)
	return nil
}

// size is what a body has on average, in bytes.
func (s *session) size() int { return s.bytes / max(s.read, 1) }

// next waits for a delivery; false: there is none, though the broker counted it
// as ready. It expired, or somebody else has it.
func (s *session) next(ctx context.Context) (amqp.Delivery, bool, error) {
	return s.within(ctx, patience)
}

func (s *session) within(ctx context.Context, wait time.Duration) (amqp.Delivery, bool, error) {
	if s.prefetch == 0 && s.room == 0 {
		if err := s.consume(); err != nil {
			return amqp.Delivery{}, false, s.lost()
		}
	}
	deliveries := s.consumers[len(s.consumers)-1]
	select { // nearly always
	case d, ok := <-deliveries:
		return s.delivered(d, ok)
	default:
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case d, ok := <-deliveries:
		return s.delivered(d, ok)
	case <-ctx.Done():
		return amqp.Delivery{}, false, ctx.Err()
	case <-limit.C:
		return amqp.Delivery{}, false, nil
	}
}

func (s *session) delivered(d amqp.Delivery, ok bool) (amqp.Delivery, bool, error) {
	if !ok {
		return d, false, s.lost()
	}
	s.room--
	s.read++
	s.bytes += len(d.Body)
	s.returns = returnsOf(d.Headers)
	return d, true, nil
}

// takeReturned takes all that was returned before, which comes before what was
// not. An error ends the session, and it.
func (s *session) takeReturned(ctx context.Context, progress func(doing string, done, of int)) {
	defer s.ignore()
	s.prefetch, s.room = 0, 0
	for taken, last := 0, time.Now(); ; {
		left, err := s.left() // what the first consumer got since is not for this one
		if err != nil || left == 0 || time.Since(last) > patience {
			return
		}
		s.ready = s.read + left
		for of := taken + left; taken < of; taken++ {
			d, ok, err := s.within(ctx, countedSince)
			if err != nil || ok && !d.Redelivered {
				return
			}
			if !ok {
				break
			}
			last = time.Now()
			progress("returning", taken+1, of)
		}
	}
}

// left is how many messages are ready.
func (s *session) left() (int, error) {
	defer onTime(s.conn)()
	now, err := state(s.ch, s.queue)
	return now.Messages, err
}

// cause is why the channel is closed, if that is all that err says.
func (s *session) cause(err error) error {
	if !errors.Is(err, amqp.ErrClosed) || s.closed == nil {
		return err
	}
	select {
	case why := <-s.closed:
		if why != nil {
			return why
		}
	case <-time.After(time.Second):
	}
	return err
}

// lost says why the session ended by itself.
func (s *session) lost() error {
	select {
	case why := <-s.closed:
		if why != nil {
			return fmt.Errorf("%w: queue %q: %w", ErrInterrupted, s.queue, why)
		}
	case <-time.After(time.Second):
		return fmt.Errorf("%w: queue %q: the broker cancelled the consumer", ErrInterrupted, s.queue)
	}
	return fmt.Errorf("%w: queue %q: %w", ErrInterrupted, s.queue, amqp.ErrClosed)
}

// ack settles a delivery, or all up to it. The broker may not have it yet, nor
// the queue: see fence and land.
func (s *session) ack(l *Message, andBefore bool) error {
	if err := s.ch.Ack(l.tag, andBefore); err != nil {
		return s.lost()
	}
	s.acks++
	return nil
}

// land returns nil once the queue has all acks. The channel passes settlements on
// to a quorum queue at once if no more than 32 are under way, and keeps the rest
// back: it loses them if the connection is lost, or closed. To begin a consumer
// takes its turn in the queue's log, behind those that were passed on, which
// releases the rest; to end it, behind these: of 300 acks sent at once up to 267
// were lost without that, none with it (3.10.8, 4.0.5 and 4.3.6:
// TestSingleAcksOfALostConnection).
func (s *session) land() error {
	if s.classic {
		return s.fence()
	}
	defer onTime(s.conn)()
	const tag = "strikes-dead-land" // what it brings returns behind that of the others
	err := s.ch.Qos(1, 0, false)
	if err == nil {
		var deliveries <-chan amqp.Delivery
		if deliveries, err = s.ch.Consume(s.queue, tag, false, false, false, false, amqp.Table{"x-priority": int32(-1)}); err == nil {
			s.discard(deliveries)
			err = s.ch.Cancel(tag, false)
		}
	}
	if err != nil {
		return s.lost()
	}
	s.acks = 0
	return nil
}

// fence returns nil once the channel in the broker has what was sent before, as
// its reply comes in order.
func (s *session) fence() error {
	defer onTime(s.conn)()
	if err := s.ch.Qos(max(s.prefetch, 1), 0, false); err != nil { // it is that of later consumers
		return s.lost()
	}
	return nil
}

// ignore takes what else is delivered, which is then not held in memory.
func (s *session) ignore() {
	for _, deliveries := range s.consumers {
		s.discard(deliveries)
	}
}

func (s *session) discard(deliveries <-chan amqp.Delivery) {
	s.drained.Go(func() {
		for range deliveries {
		}
	})
}

// close gives back what is not settled, in order.
func (s *session) close() {
	if s.acks > passedOn {
		_ = s.land() // if it cannot, they may return
	}
	done := onTime(s.conn)
	_ = s.ch.Close() // what is not settled returns in any case
	done()
	hangUp(s.conn)
	s.drained.Wait()
}
