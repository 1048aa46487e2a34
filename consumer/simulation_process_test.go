package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/control"
	"github.com/strikesmq/strikes/internal/audit"
)

// reap takes sessions that have ended off their process, and processes whose last has ended off the machine.
func (w *simWorld) reap() {
	for _, p := range w.procs {
		if p.dead.Load() {
			continue
		}
		p.sessions = slices.DeleteFunc(p.sessions, func(s *simSession) bool {
			over := s.ended.Load()
			if over {
				s.hangUp()
			}
			if over && s.stuck && !p.stopping {
				w.stop(p)
			}
			return over
		})
		if p.over.Load() && !p.stopping {
			w.stop(p)
		}
		switch { // a process that leaves now has exited in a later step: else it would depend on how busy the machine is
		case p.exited.Load():
			w.note(audit.Event{Kind: audit.Stopped, Process: p.id})
			w.note(audit.Event{Kind: audit.Exited, Process: p.id})
			w.remove(p)
		case p.stopping && len(p.sessions) == 0:
			p.leave()
		}
	}
}

// simProc is one process of consumers. After its death nothing that its goroutines do has an effect.
type simProc struct {
	world     *simWorld
	id        int
	dead      atomic.Bool
	stopping  bool
	isolation *isolation
	ctx       context.Context //nolint:containedctx // is the lifetime of a process
	cancel    context.CancelFunc
	sessions  []*simSession
	serving   sync.WaitGroup
	late      *late
	control   *control.Control
	leaving   bool        // its sessions have ended
	frozen    time.Time   // until then nothing moves in it
	over      atomic.Bool // it shares no partitions any more
	exited    atomic.Bool
}

func (w *simWorld) start() {
	p := &simProc{world: w, id: len(w.procs) + 1, isolation: newIsolation(), late: newLate()}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.watch()
	w.procs = append(w.procs, p)
	w.note(audit.Event{Kind: audit.Started, Process: p.id})
	if w.plan.partitions > 0 {
		w.shares.changed = time.Now()
		p.share()
	}
}

func (w *simWorld) stop(p *simProc) {
	p.stopping = true
	w.note(audit.Event{Kind: audit.Stopping, Process: p.id})
	p.cancel()
}

// kill ends a process where it stands. The token is that of the attempt whose handler does it, empty if none does.
func (w *simWorld) kill(p *simProc, why, token string) {
	w.note(audit.Event{Kind: audit.Exited, Process: p.id, Err: "killed by " + why, Token: token})
	w.remove(p)
}

func (w *simWorld) remove(p *simProc) {
	w.shares.changed = time.Now()
	p.dead.Store(true)
	for _, op := range w.waiting() {
		if op.proc == p && w.unpark(op) {
			if op.killed != nil {
				op.killed()
			}
			op.drop()
			close(op.done)
		}
	}
	for _, s := range p.sessions {
		w.broker.release(s)
		s.cut = true
		s.observe()
	}
	p.cancel()
	p.leave()
}

// leave gives late steps their last try, as Run does before it returns.
func (p *simProc) leave() {
	if !p.leaving {
		p.leaving = true
		go func() {
			p.serving.Wait()
			p.unwatch()
			p.late.close()
			p.exited.Store(true)
		}()
	}
}

// simSession is a session of the code under test, and its channel as the broker sees it.
type simSession struct {
	world     *simWorld
	proc      *simProc
	id        int
	partition int

	deliveries chan amqp.Delivery
	closing    chan *amqp.Error
	cancel     chan string
	unsettled  map[uint64]*simMessage
	copies     map[uint64]string // names, by delivery tag
	tags       uint64
	cut        bool // the broker has given it up
	told       bool // and the process knows
	closed     bool // by the process
	cancelled  bool // by the broker
	stuck      bool // it ended with ErrStuck, so its Run returns, and the program restarts
	ended      atomic.Bool
	zombie     time.Time // until when its process does not know that it is cut
}

// subscribe opens a channel with a consumer of the queue, or of a partition.
func (w *simWorld) subscribe(p *simProc, partition int) (*simSession, *link) {
	s := &simSession{world: w, proc: p, id: w.sessions + 1, partition: partition, unsettled: map[uint64]*simMessage{},
		copies: map[uint64]string{}}
	w.sessions++
	s.deliveries = make(chan amqp.Delivery, w.plan.prefetch)
	s.closing, s.cancel = make(chan *amqp.Error, 1), make(chan string, 1)
	p.sessions = append(p.sessions, s)
	w.note(audit.Event{Kind: audit.Opened, Process: p.id, Session: s.id})
	return s, &link{channel: s, alive: s.alive, tag: "sim", deliveries: s.deliveries, closed: s.closing,
		cancelled: s.cancel}
}

// consumer is the Consumer of every process.
func (w *simWorld) consumer() Consumer {
	return Consumer{
		Queue: "orders", MaxRetries: w.plan.maxRetries,
		MaxAge: w.plan.maxAge,
		Retry:  w.plan.retry, Isolation: w.plan.isolation, Backoff: w.plan.delay,
		HandlerTimeout: simHandlerTimeout, ConsumerTimeout: w.plan.consumerTimeout(), Concurrency: w.plan.concurrency,
		Prefetch: w.plan.prefetch, DrainTimeout: simDrainTimeout,
		Ordered: w.plan.ordered, HoldLanes: w.plan.hold || w.plan.whole, Lane: func(d amqp.Delivery) string {
			if w.plan.astray {
				return d.MessageId
			}
			return w.plan.lane(d.MessageId)
		},
	}
}

func (w *simWorld) open(p *simProc) {
	s, link := w.subscribe(p, 0)
	c := w.consumer()
	c.Handler, c.Counter = s.handle, newSimLink(s)
	if w.plan.whole {
		c.Lane = nil
	}
	p.serving.Go(func() {
		mine := newSession(c.withDefaults(), "/", nil)
		mine.isolation, mine.late = p.isolation, p.late
		s.delayQueues(find[*delayRoom](mine.rooms))
		session, end := p.ctx, func() {}
		if p.control == nil && find[*laneRoom](mine.rooms).blocked == nil {
			// No lane is blocked. To ask about that each second makes a schedule take five times as long.
			mine.rooms = slices.DeleteFunc(mine.rooms, func(r room) bool { _, is := r.(*laneRoom); return is })
		}
		if p.control != nil {
			find[*controlRoom](mine.rooms).control = p.control
			session, end = p.control.Consuming(p.ctx)
		}
		defer end()
		s.stuck = errors.Is(mine.serve(session, link), ErrStuck) // other ends are seen at the broker and the store
		s.ended.Store(true)
	})
}

// gone reports whether the broker delivers nothing to it any more.
func (s *simSession) gone() bool { return s.cut || s.closed || s.cancelled }

// observe makes a lost connection known to its process.
func (s *simSession) observe() {
	if s.told {
		return
	}
	s.told = true
	if !s.proc.dead.Load() {
		s.world.note(audit.Event{Kind: audit.Told, Process: s.proc.id, Session: s.id})
	}
	s.closing <- amqp.ErrClosed
}

// await carries out act when the world wants it to.
func (s *simSession) await(kind string, number uint64, act func() error) error {
	var result error
	op := &simOp{proc: s.proc, session: s.id, kind: kind, number: int64(number)}
	op.act = func() bool { result = act(); return true }
	op.drop = func() { result = amqp.ErrClosed }
	s.world.park(op)
	<-op.done
	return result
}

func (s *simSession) settle(tag uint64, multiple bool, what string) error {
	settle := s.world.settle
	if multiple {
		settle = s.world.settleUpTo
	}
	return s.await("settle", tag, func() error { return settle(s, tag, what) })
}

func (s *simSession) Ack(tag uint64, multiple bool) error { return s.settle(tag, multiple, audit.Ack) }

func (s *simSession) Nack(tag uint64, multiple, requeue bool) error {
	return s.settle(tag, multiple, map[bool]string{true: audit.Requeue, false: audit.DeadLetter}[requeue])
}

func (s *simSession) Reject(tag uint64, requeue bool) error {
	return s.settle(tag, false, fmt.Sprintf("basic.reject requeue=%v", requeue))
}

func (s *simSession) Cancel(string, bool) error { return nil }

func (s *simSession) Qos(int, int, bool) error { return nil }

func (s *simSession) Consume(string, string, bool, bool, bool, bool, amqp.Table) (<-chan amqp.Delivery, error) {
	return nil, nil
}

func (s *simSession) alive() error {
	return s.await("alive", 0, func() error {
		if s.gone() {
			return amqp.ErrClosed
		}
		return nil
	})
}

func (s *simSession) Close() error {
	return s.await("close", 0, func() error {
		if s.cut {
			return amqp.ErrClosed
		}
		s.hangUp()
		return nil
	})
}

// hangUp closes the channel from the process's side. Run does it with every connection whose session is over.
func (s *simSession) hangUp() {
	if s.cut || s.closed {
		return
	}
	s.closed = true
	s.world.broker.release(s)
	s.world.note(audit.Event{Kind: audit.Closed, Process: s.proc.id, Session: s.id})
}

var errSim = errors.New("it failed")

// handle is the Handler of every message. It ends when the world says so, which may be after its context.
func (s *simSession) handle(ctx context.Context, d amqp.Delivery) error {
	attempt, _ := AttemptFrom(ctx)
	name, does := s.begin(ctx, attempt, d)
	deadline, _ := ctx.Deadline()
	w := s.world
	var outcome string
	op := &simOp{proc: s.proc, session: s.id, kind: "handler", number: numberOf(attempt.Token)}
	op.ready = func() bool {
		switch does {
		case "deaf":
			return w.ending
		case "hang":
			return w.ending || ctx.Err() != nil
		case "abandoned kill":
			return w.ending || time.Since(deadline) > simAbandoned
		}
		return true
	}
	op.act = func() bool {
		outcome = does
		switch {
		case ctx.Err() != nil && does != "deaf" && does != "abandoned kill" && w.chance(2): // it obeys its context
			outcome = audit.Cancelled
			if errors.Is(context.Cause(ctx), errDeadline) {
				outcome = audit.TimedOut
			}
		case does == "kill", does == "abandoned kill" && !w.ending:
			w.kill(s.proc, "its handler of "+name, attempt.Token)
			return false
		case does == "hang", does == "deaf", does == "abandoned kill":
			outcome = audit.Failed
		}
		e := audit.Event{Kind: audit.Ended, Process: s.proc.id, Session: s.id, Copy: name, ID: d.MessageId,
			Token: attempt.Token, Outcome: outcome}
		if n, ok := retriesOf(outcome); ok {
			e.Outcome, e.AtMost = audit.Failed, n+1
		}
		w.note(e)
		w.judge.end(d.MessageId, outcome, s)
		return true
	}
	op.drop = func() { outcome = audit.Failed }
	w.park(op)
	<-op.done
	return simResult(outcome)
}

// begin waits for the world to begin the attempt, and asks for the behaviour of the message.
func (s *simSession) begin(ctx context.Context, attempt Attempt, d amqp.Delivery) (name, does string) {
	w := s.world
	deadline, _ := ctx.Deadline()
	op := &simOp{proc: s.proc, session: s.id, kind: "begin", number: numberOf(attempt.Token)}
	op.act = func() bool {
		w.runs[d.MessageId]++
		for _, m := range w.plan.messages {
			if m.id == d.MessageId {
				does = m.does.of(w.runs[m.id])
			}
		}
		name = s.copies[d.DeliveryTag]
		w.judge.begin(d.MessageId, s)
		w.note(audit.Event{
			Kind: audit.Began, Process: s.proc.id, Session: s.id, Tag: d.DeliveryTag, Copy: name, ID: d.MessageId,
			Token:       attempt.Token,
			Redelivered: d.Redelivered, Until: deadline,
		})
		return true
	}
	op.drop = func() { does = audit.Failed }
	w.park(op)
	<-op.done
	return name, does
}

// retriesOf returns the retries that a handler allows which "fails, at most n".
func retriesOf(outcome string) (int, bool) {
	text, ok := strings.CutPrefix(outcome, "at most ")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil
}

func simResult(outcome string) error {
	if n, ok := retriesOf(outcome); ok {
		return RetryAtMost(errSim, n)
	}
	switch outcome {
	case audit.OK:
		return nil
	case audit.Rejected:
		return Reject(errSim)
	case audit.NotCounted:
		return NotCounted(errSim)
	case audit.Crashed:
		return Crashed(errSim)
	case audit.Panicked:
		panic(errSim)
	case audit.Goexit:
		runtime.Goexit()
	}
	return errSim
}

// numberOf is the part of a token that tells runs of one process apart.
func numberOf(token string) int64 {
	n, err := strconv.ParseInt(token[strings.LastIndexByte(token, '-')+1:], 36, 64)
	if err != nil {
		panic(err)
	}
	return n
}
