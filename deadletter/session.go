package deadletter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
)

// passedOn is how many settlements a channel passes on to a quorum queue without a reply.
const passedOn = 32

// session holds messages of the queue. Those that are delivered and not settled return in their order when it closes.
// It is for one goroutine.
type session struct {
	queue, vhost string
	classic      bool
	conn         *amqp.Connection
	ch           *amqp.Channel
	prefetch     int  // zero: any number
	most         int  // messages to read; zero: all
	single       bool // no consumer: get takes one message at a time
	receives     bool // it has a consumer, or asked for one: a message may end the connection
	consumers    []<-chan amqp.Delivery
	room         int   // deliveries that the newest consumer can still receive, if prefetch is zero
	read, bytes  int   // deliveries until now, and their bodies
	returns      int64 // of the last delivery, counted by a quorum queue
	over         bool  // it was found to have ended by itself
	closed       chan *amqp.Error
	cancelled    chan string // receives if the broker took a consumer's messages back
	asked        time.Time   // when the request was sent that the queue has not answered; zero: there is none
	acks         int         // sent, and maybe not in the queue yet
	ready        int         // messages to read: those in the queue when it began, but not more than most
	drained      sync.WaitGroup
}

// open starts a session as the queue's only consumer. Quorum queues do not enforce exclusive consumers, so it looks for
// others before and after it consumes.
func (q *Queue) open(ctx context.Context, s *session) (*session, error) {
	for begun := time.Now(); ; {
		err := q.connect(ctx, s)
		switch {
		case err == nil:
			return s, nil
		case !errors.Is(err, errLocked):
			return nil, err
		case time.Since(begun) > lingers:
			return nil, fmt.Errorf("%w, which locks queue %q with the exclusive queue %q: wait for it, or stop it", ErrBusy,
				q.Name, q.Name+lockSuffix)
		case !pause.For(ctx, 100*time.Millisecond):
			return nil, ctx.Err()
		}
	}
}

// connect connects once, and begins the session.
func (q *Queue) connect(ctx context.Context, s *session) error {
	conn, err := broker.Connect(ctx, q.Dial)
	if err != nil {
		return err
	}
	s.queue, s.classic, s.vhost, s.conn = q.Name, q.Handling.InPlace, conn.Config.Vhost, conn
	stop := context.AfterFunc(ctx, func() { broker.HangUp(conn) })
	defer stop()
	if err := s.begin(ctx); err != nil {
		err = s.cause(err)
		broker.HangUp(conn)
		var closed *amqp.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errLocked):
			return err
		case errors.As(err, &closed) && broker.Unanswered(closed, s.asked):
			return fmt.Errorf("%w: queue %q: %w", ErrUnanswered, s.queue, err)
		case s.receives:
			if err := undecodable(s.queue, 0, err); err != nil {
				return err
			}
		}
		return explain(q.Name, err)
	}
	return nil
}

func (s *session) begin(ctx context.Context) error {
	defer onTime(s.conn)()
	var err error
	if s.ch, err = s.conn.Channel(); err != nil {
		return err
	}
	s.closed = s.ch.NotifyClose(make(chan *amqp.Error, 1))
	s.cancelled = s.ch.NotifyCancel(make(chan string, 100)) // one for each consumer
	if err := s.lock(); err != nil {
		return err
	}
	if err := s.ask(func() (err error) { s.ready, err = quiet(ctx, s.ch, s.queue); return err }); err != nil {
		return err
	}
	if s.most > 0 {
		s.ready = min(s.ready, s.most)
	}
	if s.single {
		return nil
	}
	if err := s.consume(); err != nil {
		return err
	}
	var after amqp.Queue
	err = s.ask(func() (err error) { after, err = broker.Passive(s.ch, s.queue); return err })
	if err == nil && after.Consumers > 1 {
		after.Consumers-- // this one
		err = busy(after)
	}
	return err
}

// consume adds a consumer.
func (s *session) consume() error {
	if s.prefetch > 0 {
		return s.add(s.prefetch, s.classic) // quorum queues do not enforce it
	}
	s.room = s.more(len(s.consumers))
	return s.add(s.room, s.classic && len(s.consumers) == 0 && s.ready <= s.room)
}

// add adds a consumer that holds at most prefetch messages. The tags are in order: a quorum queue returns the messages
// of several consumers of a channel by their tags.
func (s *session) add(prefetch int, alone bool) error {
	if err := s.ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	tag := fmt.Sprintf("strikes-dead-%06d", len(s.consumers))
	s.receives = true
	var deliveries <-chan amqp.Delivery
	if err := s.ask(func() (err error) {
		deliveries, err = s.ch.Consume(s.queue, tag, false, alone, false, false, nil)
		return err
	}); err != nil {
		return err
	}
	s.consumers = append(s.consumers, deliveries)
	return nil
}

// more returns how many messages one more consumer is to bring.
func (s *session) more(consumers int) int {
	left := max(s.ready-s.read, 1)
	return stepFor(min(max(s.read, firstPrefetch), left), left, s.bytes/max(s.read, 1), consumers)
}

// next waits for a delivery. It returns false if none arrives although the broker counted it: it expired, or another
// consumer has it.
func (s *session) next(ctx context.Context) (amqp.Delivery, bool, error) {
	switch {
	case s.single:
		return s.get(ctx, s.ch)
	case s.prefetch == 0 && s.room == 0:
		if err := s.consume(); err != nil {
			return amqp.Delivery{}, false, s.lost()
		}
	}
	select {
	case d, ok := <-s.consumers[len(s.consumers)-1]:
		return s.delivered(d, ok)
	case <-ctx.Done():
		return amqp.Delivery{}, false, ctx.Err()
	case <-time.After(patience):
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
	if s.returns = 0; d.Redelivered { // else a publisher wrote the headers
		s.returns = returnsOf(d.Headers)
	}
	return d, true, nil
}

// get takes the next message with a channel of a session without a consumer. It returns false at the end of the queue.
func (s *session) get(ctx context.Context, ch *amqp.Channel) (amqp.Delivery, bool, error) {
	if err := ctx.Err(); err != nil {
		return amqp.Delivery{}, false, err
	}
	defer onTime(s.conn)()
	var d amqp.Delivery
	var ok bool
	err := s.ask(func() (err error) { d, ok, err = ch.Get(s.queue, false); return err })
	switch {
	case err != nil:
		return d, false, s.lost()
	case !ok:
		return d, false, nil
	}
	return s.delivered(d, true)
}

// left returns how many messages are ready.
func (s *session) left() (int, error) {
	defer onTime(s.conn)()
	var now amqp.Queue
	err := s.ask(func() (err error) { now, err = broker.Passive(s.ch, s.queue); return err })
	return now.Messages, err
}

// ask makes a request that the queue answers, not only the channel.
func (s *session) ask(request func() error) error {
	s.asked = time.Now()
	err := request()
	if err == nil {
		s.asked = time.Time{}
	}
	return err
}

// why returns why the channel closed, if the broker said; false if the channel is still open after a second.
func (s *session) why() (why *amqp.Error, closed bool) {
	select {
	case why = <-s.closed:
		return why, true
	case <-time.After(time.Second):
		return nil, false
	}
}

// cause returns why the channel closed, if err says only that it did. A request says so by the error of its socket if
// the client has closed the connection and has not told its channels yet.
func (s *session) cause(err error) error {
	var network net.Error
	if (errors.Is(err, amqp.ErrClosed) || errors.As(err, &network)) && s.closed != nil {
		if why, _ := s.why(); why != nil {
			return why
		}
	}
	return err
}

// lost returns the error for a session that ended by itself.
func (s *session) lost() error {
	s.over = true
	closed, known := s.why()
	var why error = closed
	switch {
	case !known:
		why = errors.New("the broker cancelled the consumer: the queue was deleted or moved, or messages were held for " +
			"longer than the consumer timeout; take fewer at a time")
	case closed == nil:
		why = amqp.ErrClosed
	case broker.Unanswered(closed, s.asked):
		return fmt.Errorf("%w: queue %q: %w: %w", ErrUnanswered, s.queue, ErrInterrupted, closed)
	}
	if err := undecodable(s.queue, s.read, why); err != nil {
		return err
	}
	return fmt.Errorf("%w: queue %q: %w", ErrInterrupted, s.queue, why)
}

// ack settles a delivery, or all up to it. The broker, or the queue, may not have the ack yet: see fence and land.
func (s *session) ack(m *Message, andBefore bool) error {
	if err := s.ch.Ack(m.tag, andBefore); err != nil {
		return s.lost()
	}
	s.acks++
	return nil
}

// land returns nil once the queue has all acks. A channel passes settlements on to a quorum queue while no more than 32
// are under way, and keeps the others: it loses them with the connection. A new consumer waits in the queue's log
// behind those passed on, and releases the others; its cancellation waits behind these. Of 300 acks sent together up to
// 267 were lost without that, none with it (3.10.8, 4.0.5 and 4.3.6: TestSingleAcksOfALostConnection).
func (s *session) land() error {
	if s.classic {
		return s.fence()
	}
	defer onTime(s.conn)()
	const tag = "strikes-dead-land" // its messages return behind those of the others
	err := s.ch.Qos(1, 0, false)
	if err == nil {
		var deliveries <-chan amqp.Delivery
		if err = s.ask(func() (err error) {
			deliveries, err = s.ch.Consume(s.queue, tag, false, false, false, false, amqp.Table{"x-priority": int32(-1)})
			return err
		}); err == nil {
			s.discard(deliveries)
			err = s.ch.Cancel(tag, false)
		}
	}
	if err != nil {
		return s.lost()
	}
	s.acks = 0
	return s.intact()
}

// fence returns nil once the channel in the broker has everything sent before: its reply comes in order.
func (s *session) fence() error {
	defer onTime(s.conn)()
	if err := s.ch.Qos(max(s.prefetch, 1), 0, false); err != nil { // the prefetch of later consumers
		return s.lost()
	}
	return s.intact()
}

// intact returns an error if the broker has cancelled a consumer: from RabbitMQ 4.3 on it does so if a message was held
// for longer than the consumer timeout. It took the messages back, and ignores later acks, without closing the channel.
func (s *session) intact() error {
	select {
	case <-s.cancelled:
		return s.lost()
	default:
		return nil
	}
}

// ignore receives all other deliveries, so that they do not stay in memory.
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

// close returns the messages that are not settled, in order.
func (s *session) close() {
	if s.acks > passedOn {
		_ = s.land() // if it fails, the messages may return
	}
	done := onTime(s.conn)
	_ = s.ch.Close() // unsettled messages return in any case
	done()
	broker.HangUp(s.conn)
	s.drained.Wait()
}

// lockSuffix ends the name of the exclusive queue that a session declares while it works on a dead-letter queue.
const lockSuffix = ".strikes-lock"

// lock keeps other sessions off the queue until the connection ends, before anything is delivered. A quorum queue does
// not enforce exclusive consumers, and a consumer that finds another beside it has already changed the order. So the
// lock is an exclusive queue. Without the permission to configure that queue there is no lock: sessions that begin
// together may all find the queue busy. lock returns errLocked if another connection has the lock.
func (s *session) lock() error {
	if broker.CheckName(s.queue+lockSuffix) != nil {
		return nil // the name is too long
	}
	ch, err := s.conn.Channel()
	if err != nil {
		return err
	}
	_, err = ch.QueueDeclare(s.queue+lockSuffix, false, false, true, false, amqp.Table{"x-queue-type": "classic"})
	if err == nil {
		return ch.Close()
	}
	err = s.cause(err)
	var reply *amqp.Error // it has closed the channel alone, unless it is cut
	switch {
	case broker.CutRefusal(err, s.vhost+s.queue):
		return errLocked
	case !errors.As(err, &reply), s.conn.IsClosed():
		return err
	case reply.Code == amqp.ResourceLocked:
		return errLocked
	}
	return nil // the user may not declare it
}

var errLocked = errors.New("another connection has the lock")
