package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// simSession is a session of the code under test, and its channel as the broker sees it.
type simSession struct {
	world *simWorld
	proc  *simProc
	id    int

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
	ended      atomic.Bool
}

func (w *simWorld) open(p *simProc) {
	s := &simSession{world: w, proc: p, id: w.sessions + 1, unsettled: map[uint64]*simMessage{}, copies: map[uint64]string{}}
	w.sessions++
	s.deliveries = make(chan amqp.Delivery, w.plan.prefetch)
	s.closing, s.cancel = make(chan *amqp.Error, 1), make(chan string, 1)
	link := &link{channel: s, tag: "sim", deliveries: s.deliveries, closed: s.closing, cancelled: s.cancel}
	p.sessions = append(p.sessions, s)
	w.note(simEvent{kind: "open", proc: p.id, session: s.id})
	settler, err := (&Settler{
		Queue: "orders", Counter: &simLink{session: s}, MaxRetries: w.plan.maxRetries, Retry: w.plan.retry, Isolation: w.plan.isolation,
		Backoff:        func(failed int) time.Duration { return time.Duration(failed) * 200 * time.Millisecond },
		HandlerTimeout: simHandlerTimeout, ConsumerTimeout: simConsumerTimeout, isolation: p.isolation,
	}).prepared()
	if err != nil {
		panic(err)
	}
	settler.late = p.late
	c := Consumer{
		Queue: "orders", Handler: s.handle, Concurrency: w.plan.concurrency, Prefetch: w.plan.prefetch, DrainTimeout: simDrainTimeout,
		Ordered: w.plan.ordered, Lane: func(d amqp.Delivery) string { return w.plan.lane(d.MessageId) },
	}
	p.serving.Go(func() {
		session, end := p.control.consuming(p.ctx)
		defer end()
		mine := newSession(c, settler)
		mine.control = p.control
		_ = mine.serve(session, link) // how a session ends is seen at the broker and the store
		s.ended.Store(true)
	})
}

// gone reports whether the broker delivers nothing to it any more.
func (s *simSession) gone() bool { return s.cut || s.closed || s.cancelled }

// tell makes a lost connection known to its process.
func (s *simSession) observe() {
	if s.told {
		return
	}
	s.told = true
	if !s.proc.dead.Load() {
		s.world.note(simEvent{kind: "told", proc: s.proc.id, session: s.id})
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

func (s *simSession) Ack(tag uint64, multiple bool) error { return s.settle(tag, multiple, "ack") }

func (s *simSession) Nack(tag uint64, multiple, requeue bool) error {
	return s.settle(tag, multiple, map[bool]string{true: "requeue", false: "dead-letter"}[requeue])
}

func (s *simSession) Reject(tag uint64, requeue bool) error {
	return s.settle(tag, false, fmt.Sprintf("basic.reject requeue=%v", requeue))
}

func (s *simSession) Cancel(string, bool) error { return nil }

func (s *simSession) Consume(string, string, bool, bool, bool, bool, amqp.Table) (<-chan amqp.Delivery, error) {
	return nil, nil
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
	s.world.note(simEvent{kind: "close", proc: s.proc.id, session: s.id})
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
			return w.ending || time.Since(deadline) > simLeftBehind
		}
		return true
	}
	op.act = func() bool {
		outcome = does
		switch {
		case ctx.Err() != nil && does != "deaf" && does != "abandoned kill" && w.chance(2): // it obeys its context
			outcome = "cancelled"
			if errors.Is(context.Cause(ctx), errDeadline) {
				outcome = "late"
			}
		case does == "kill", does == "abandoned kill" && !w.ending:
			w.kill(s.proc, "its handler of "+name, attempt.Token)
			return false
		case does == "hang", does == "deaf", does == "abandoned kill":
			outcome = "error"
		}
		w.note(simEvent{kind: "ran", proc: s.proc.id, session: s.id, copy: name, id: d.MessageId, token: attempt.Token, what: outcome})
		return true
	}
	op.drop = func() { outcome = "error" }
	w.park(op)
	<-op.done
	return simResult(outcome)
}

// begin waits for the world to begin the run, and asks what the message does.
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
		w.note(simEvent{
			kind: "run", proc: s.proc.id, session: s.id, tag: d.DeliveryTag, copy: name, id: d.MessageId, token: attempt.Token,
			redelivered: d.Redelivered, until: deadline.Sub(w.began), fence: attempt.Fence,
		})
		return true
	}
	op.drop = func() { does = "error" }
	w.park(op)
	<-op.done
	return name, does
}

func simResult(outcome string) error {
	switch outcome {
	case "ok":
		return nil
	case "reject":
		return Reject(errSim)
	case "uncounted":
		return NotCounted(errSim)
	case "crash":
		return Crashed(errSim)
	case "panic":
		panic(errSim)
	case "goexit":
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
