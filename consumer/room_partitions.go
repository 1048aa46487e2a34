package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/semaphore"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
)

// partitionFeature shares the partitions of a queue with other processes, see Consumer.Partitions.
var partitionFeature = feature{set: setPartitions, room: newPartitionRoom}

// setPartitions refuses settings that Partitions cannot have, and makes the routing key the lane if there is none. A
// consumer that requeues has no lanes.
func setPartitions(c *Consumer) error {
	switch {
	case c.Partitions == 0:
		return nil
	case c.Partitions < broker.FewestPartitions || c.Partitions > broker.MostPartitions:
		return refused(c.Queue, "Partitions", c.Partitions, fmt.Sprintf("the number that the queue was declared with, %d "+
			"to %d, or 0 for one queue", broker.FewestPartitions, broker.MostPartitions))
	case !c.Ordered:
		return refused(c.Queue, "Ordered", false, "true with Partitions")
	case c.Lane == nil && c.Retry != RetryRequeue:
		c.Lane = func(d amqp.Delivery) string { return d.RoutingKey }
	}
	return nil
}

// partitionRoom takes the place of a session on the queue: it has a session on each partition that is dealt to this
// process. The deal decides who subscribes, and the broker, by its single active consumer, who receives. So no wrong or
// late deal breaks the order. No session sets a priority: RabbitMQ 4.3 can stop a queue whose consumer was replaced by
// one of a higher priority.
type partitionRoom struct {
	noRoom
	s    *session // of the queue; it consumes nothing
	deal *deal

	workers *workers // of all sessions
	slots   *semaphore.Weighted
	serve   func(context.Context, *amqp.Connection, *session) (again bool, err error) // consume; else a simulation

	served    *atomic.Bool // a session of this process has consumed
	newest    int          // the partition whose session began last; see careBetween
	mu        sync.Mutex
	consuming []*session
	idle      bool // the deal has no partition for this process
	ready     bool // the last argument of Consumer.Consuming
}

func newPartitionRoom(s *session, before rooms) room {
	if s.Partitions == 0 {
		return nil
	}
	r := &partitionRoom{s: s, slots: newSlots(s.Concurrency), served: new(atomic.Bool)}
	r.workers = newWorkers(s.Concurrency, r.wake)
	r.workers.shared, r.serve = true, r.consume
	if last := find[*partitionRoom](before); last != nil {
		r.deal, r.served, r.newest = last.deal, last.served, last.newest
	} else {
		r.deal = newDeal(s.settings)
	}
	return r
}

// careBetween is the time between the starts of two careful sessions, which prefetch one message each. An undecodable
// message at the head of a partition ends all sessions on the connection within this time. So the session that began
// last has met it, and begins first on the next connection. No other session has a message then, so none returns.
const careBetween = 500 * time.Millisecond

// spareChannels are for questions to the broker, beside one channel for each partition.
const spareChannels = 4

// around runs sessions on the partitions of the deal until ctx is done or the connection is lost. It does not run while
// the broker is away. The deal is not read then, so others get the partitions.
func (r *partitionRoom) around(ctx context.Context, conn *amqp.Connection, _ func(context.Context) error) (err error) {
	if most, need := int(conn.Config.ChannelMax), r.s.Partitions+spareChannels; most > 0 && most < need {
		return refusal{fmt.Errorf("consumer: queue %q: the connection may have %d channels, and %d partitions need "+
			"%d: raise channel_max in the URL or at the broker", r.s.Queue, most, r.s.Partitions, need)}
	}
	inner, end := context.WithCancel(ctx)
	var sessions sync.WaitGroup
	r.deal.begin()
	read := time.After(0)
	lost := conn.NotifyClose(make(chan *amqp.Error, 1))
	running, over := map[int]context.CancelFunc{}, make(chan partitionEnd, r.s.Partitions)
	var turn <-chan time.Time // of the next careful session
	for err == nil && ctx.Err() == nil {
		mine := r.deal.me.Consumes
		idle := r.deal.known && len(mine) == 0
		r.tell(func() { r.idle = idle })
		for p := range r.s.Partitions {
			if stop := running[p]; stop != nil && !slices.Contains(mine, p) {
				stop()
			}
		}
		from := max(slices.Index(mine, r.newest), 0)
		for _, p := range slices.Concat(mine[from:], mine[:from]) {
			if running[p] != nil || turn != nil {
				continue
			}
			if r.newest = p; r.s.arrived.careful {
				turn = time.After(careBetween)
			}
			session, stop := context.WithCancel(inner)
			running[p] = stop
			sessions.Go(func() { over <- partitionEnd{p, r.keep(inner, session, conn, p)} })
		}
		select {
		case <-ctx.Done():
		case <-read:
			r.deal.read(inner)
			read = time.After(dealEvery)
		case <-turn:
			turn = nil
		case says := <-lost:
			why := errLost
			if idle {
				why = errWaitLost
			}
			err = r.s.lost(why, says)
			sessions.Wait() // each sees the loss itself, and reports its own error
		case ended := <-over:
			running[ended.partition]()
			delete(running, ended.partition)
			err = ended.err
			if errors.Is(err, ErrUncleanStop) && ctx.Err() == nil { // the partition went to another process
				r.s.Logger.Warn("leaving a partition", "queue", r.s.Queue, "error", err)
				err = nil
			}
		}
	}
	end()
	// others may subscribe already; the broker keeps them waiting until the channels close
	if ctx.Err() != nil || errors.As(err, new(refusal)) {
		r.deal.leave(context.WithoutCancel(ctx))
	}
	sessions.Wait()
	close(over)
	for ended := range over {
		met := ended.partition == r.newest && errors.Is(ended.err, ErrUndecodable)
		if err == nil || met || ctx.Err() != nil && errors.Is(ended.err, ErrUncleanStop) {
			err = ended.err
		}
	}
	for _, stop := range running {
		stop()
	}
	r.tell(func() { r.idle = false })
	return err
}

// close leaves the deal if Run was stopped while it dialled.
func (r *partitionRoom) close() { r.deal.leave(context.Background()) }

// partitionEnd is the end of the session on a partition.
type partitionEnd struct {
	partition int
	err       error // nil: the other sessions go on
}

// keep runs sessions on a partition, one after the other, until ctx is done: the partition goes to another process, or
// all sessions end. It returns an error only if that ends the sessions on all partitions. After an error of one
// partition it begins another session.
func (r *partitionRoom) keep(all, ctx context.Context, conn *amqp.Connection, p int) error {
	before := r.s.rooms // of the session on the whole queue, which those on a partition join
	defer func() { before.close() }()
	said, failed := "", time.Time{}
	for n, tries := 1, 0; ; n++ {
		s := r.session(conn, p, before)
		before = s.rooms
		if from := deadLettersFrom(n, time.Now(), failed); from.After(s.deadLettersFrom) { // its node may have just started
			s.deadLettersFrom = from
		}
		s.lasts = func() <-chan struct{} {
			if ctx.Err() == nil || all.Err() != nil {
				return atOnce
			}
			s.Logger.Info("the partition goes to another process once the handlers that run have ended", "queue", s.Queue)
			return all.Done()
		}
		began := time.Now()
		again, err := r.serve(ctx, conn, s)
		switch {
		case ctx.Err() != nil && (err == nil || errors.Is(err, ErrUncleanStop)):
			return err
		case ctx.Err() != nil:
			return nil
		case conn.IsClosed(), errors.Is(err, ErrStuck), errors.Is(err, ErrUndecodable), errors.Is(err, errPassed):
			return err
		case errors.As(err, new(refusal)) && !isMissing(err) && !r.served.Load(): // others get its share
			return err
		case again && err == nil:
			continue
		}
		if s.link == nil { // it did not consume
			failed = time.Now()
		}
		if tries++; time.Since(began) > steady {
			tries, said = 1, ""
		}
		wait := doubled(firstWait, lastWait, tries)
		log, level := s.Logger, slog.LevelWarn
		if isMissing(err) {
			log = log.With("fix", fmt.Sprintf("if the partition was deleted, declare it again: "+
				"strikes declare --partitions %d %s", r.s.Partitions, r.s.Queue))
		}
		if text := fmt.Sprint(err); text == said {
			level = slog.LevelDebug // it may go on for long
		} else {
			said = text
		}
		log.Log(ctx, level, "the session on a partition ended; another follows", "in", wait, "error", err)
		if !pause.For(ctx, wait) {
			return nil
		}
	}
}

// isMissing reports whether the partition does not exist, or its node is down.
func isMissing(err error) bool {
	var reply *amqp.Error
	return errors.As(err, &reply) && reply.Code == amqp.NotFound
}

// session returns a session on a partition. It follows one with the rooms before.
func (r *partitionRoom) session(conn *amqp.Connection, p int, before rooms) *session {
	c := r.s.Consumer
	source := broker.Partition(c.Queue, p)
	c.Partitions, c.Consuming, c.Logger = 0, nil, c.Logger.With("partition", source)
	s := newSessionOn(source, c, r.s.vhost, before)
	s.route = s.newRoute(conn)
	s.late, s.deadLettersFrom, s.workers, s.slots = r.s.late, r.s.deadLettersFrom, r.workers, r.slots
	s.consuming = func() { r.note(s, true) }
	if r.s.arrived.careful {
		s.beCareful()
		s.arrived.began = s.arrived.began.Add(time.Duration(r.s.Partitions) * careBetween) // when the last one begins
	}
	return s
}

// consume checks what the rooms need, but not the topology, which was checked for all partitions. Then it consumes.
func (r *partitionRoom) consume(ctx context.Context, conn *amqp.Connection, s *session) (again bool, err error) {
	if err := s.rooms.check(ctx, conn); err != nil {
		return false, err
	}
	return s.amidRooms(ctx, conn, func(ctx context.Context) error {
		defer r.note(s, false)
		return s.consume(ctx, conn)
	})
}

// note notes whether a session consumes.
func (r *partitionRoom) note(s *session, consumes bool) {
	r.tell(func() {
		r.consuming = slices.DeleteFunc(r.consuming, func(other *session) bool { return other == s })
		if consumes {
			r.served.Store(true)
			r.s.consuming()
			r.consuming = append(r.consuming, s)
		}
	})
}

// tell makes a change. Then it tells the readiness probe whether this process is ready: it consumes a partition, or has
// none to consume.
func (r *partitionRoom) tell(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	if ready := r.idle || len(r.consuming) > 0; ready != r.ready {
		r.ready = ready
		r.s.isConsuming(ready)
	}
}

// wake makes the sessions look at their acks, because a worker is free. It does not hold the mutex: an ack whose write
// hangs must not stop the others.
func (r *partitionRoom) wake() {
	r.mu.Lock()
	consuming := slices.Clone(r.consuming)
	r.mu.Unlock()
	for _, s := range consuming {
		s.acks.Wake()
	}
}
