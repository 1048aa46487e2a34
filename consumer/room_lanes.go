package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/consumer/internal/lanes"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
)

// ErrLanesBlocked says that a queue with blocked lanes was refused to a consumer without HoldLanes.
var ErrLanesBlocked = errors.New("lanes are blocked")

// laneFeature keeps the order of lanes beyond dead letters, see Consumer.HoldLanes.
var laneFeature = feature{room: newLaneRoom}

// laneRoom dead-letters the messages of a blocked lane. A session that blocks no lanes is refused while one is blocked.
type laneRoom struct {
	noRoom
	s       *session
	blocked *lanes.Blocked // nil: the session blocks no lanes
	last    atomic.Int64   // if blocked is nil: the number of blocked lanes, by the last reply of the store

	keepsDeaths bool // the broker counts on in an x-death that a client published: RabbitMQ before 4.0
}

func newLaneRoom(s *session, before rooms) room {
	r := &laneRoom{s: s}
	if s.HoldLanes && s.Lane != nil {
		r.blocked = lanes.New(s.Counter, s.vhost, s.source, token(tokens.Add(1)).String(), s.Logger)
	} else if last := find[*laneRoom](before); last != nil && last.s.source == s.source {
		r.last.Store(last.last.Load())
	}
	return r
}

// check refuses a queue with blocked lanes to a session that would not block them. If the store does not reply, its
// last number stands. If it never replied, the session begins, unless the error says that the store never will.
func (r *laneRoom) check(ctx context.Context, conn *amqp.Connection) error {
	if r.blocked != nil {
		r.keepsDeaths = broker.VersionOf(conn).Before(4, 0)
		return nil
	}
	err := r.count(ctx)
	if failed := new(counter.StoreError); errors.As(err, &failed) && neverServes(err) {
		return refusal{fmt.Errorf("consumer: queue %q: reading whether its lanes are blocked: %w", r.s.Queue, err)}
	}
	n := r.last.Load()
	if n == 0 {
		return nil
	}
	return refusal{fmt.Errorf("consumer: queue %q is refused: %d of its %w, and their new messages would overtake the "+
		"dead letters: set HoldLanes and Lane to consume it, or release the lanes (strikes lane list)", r.s.Queue, n,
		ErrLanesBlocked)}
}

// count asks the store how many lanes are blocked, and keeps the number in last.
func (r *laneRoom) count(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	n, err := r.s.Counter.BlockedLanes(ctx, r.s.vhost, r.s.source)
	if err == nil {
		r.last.Store(int64(n))
	}
	return err
}

// watchEvery is the time between two questions whether a lane is blocked.
const watchEvery = time.Second

// beside reads the blocked lanes, and ends a session that would not block them. The check of the next one says why.
func (r *laneRoom) beside(ctx context.Context) {
	if r.blocked != nil {
		r.blocked.Keep(ctx)
		return
	}
	for pause.For(ctx, watchEvery) {
		if err := r.count(ctx); err == nil && r.last.Load() > 0 {
			r.s.end()
		}
	}
}

// inLane is the position of a delivery in its lane.
type inLane struct {
	carried  *counter.Position // by the message; nil: not read yet
	position counter.Position  // the same, if the store knows it
	entered  bool              // it may run
	passed   bool              // it may be settled
	step     *rules.LaneStep   // that the store did not answer
}

// beforeAttempt asks whether a message may run, where its lane may be blocked.
func (r *laneRoom) beforeAttempt(ctx context.Context, d *delivery) (step, error) {
	if r.blocked == nil {
		return stepReceived, nil
	}
	in := kept[inLane](d, r)
	if in.entered {
		return stepReceived, nil
	}
	if in.carried == nil {
		position := rules.ParsePosition(d.ours.Position())
		in.carried = &position
	}
	if err := r.blocked.Own(ctx, r.alive); err != nil {
		return 0, err
	}
	if *in.carried == (counter.Position{}) && r.blocked.IsFree(d.lane) {
		in.entered = true
		return stepReceived, nil
	}
	next, err := r.ask(ctx, d, rules.LaneEnter)
	if err != nil || next == stepLeave {
		return next, err
	}
	_, died := d.ours.NewestDeath()
	switch {
	case next == stepReceived:
		in.entered = true
	case next == stepAck && died:
		// It has died here since it got its position, and another tool has moved it back: it was not handled in that
		// position.
		*in = inLane{carried: new(counter.Position)}
		return r.beforeAttempt(ctx, d)
	case next == stepAck:
		in.passed = true
	default:
		d.outcome.cause, d.outcome.err, in.passed = counter.CauseBlocked, errLaneBlocked, true
	}
	return next, nil
}

// alive asks the broker whether the session still has the queue.
func (r *laneRoom) alive(ctx context.Context) error {
	_, err := bound.Await(ctx, stepTimeout, func() (none struct{}, err error) { return none, r.s.link.alive() },
		func(struct{}) {})
	return cmp.Or(err, ctx.Err())
}

// beforeSettlement makes sure that the store knows of a dead letter before its nack, and of a replayed message's
// success before its ack.
func (r *laneRoom) beforeSettlement(ctx context.Context, d *delivery, next step) (step, error) {
	if r.blocked == nil || next != stepDeadLetter && next != stepAck {
		return next, nil
	}
	in := kept[inLane](d, r)
	if in.passed || next == stepAck && in.position == (counter.Position{}) {
		return next, nil
	}
	act := rules.LaneLeave
	if next == stepDeadLetter {
		act = rules.LaneBlock
		<-r.s.acks.Sent() // else an earlier message that was handled could return, and be dead-lettered behind this one
	}
	next, err := r.ask(ctx, d, act)
	in.passed = err == nil
	return next, err
}

// ask sends a step of the lane, and returns the delivery's next step. It repeats a step that the store did not answer,
// but only for the same act: after an unanswered LaneEnter the session may have read that the lane is free.
func (r *laneRoom) ask(ctx context.Context, d *delivery, act rules.LaneAct) (step, error) {
	in := kept[inLane](d, r)
	if in.step == nil || in.step.Act != act {
		in.step = &rules.LaneStep{Message: d.message, Lane: d.lane, First: d.ours.FirstGeneration(), Act: act,
			Position: *in.carried, Redelivered: d.Redelivered}
		if r.s.source != r.s.Queue {
			in.step.Partition = r.s.source // each has its own owner
		}
		if d.message.ID == "" {
			key := d.RoutingKey
			if died, ok := d.ours.NewestDeath(); ok && r.keepsDeaths {
				key = died.Key // at the next death the broker keeps this one in x-death
			}
			mark := broker.LaneMark(d.Headers, key)
			in.step.ID = broker.Fingerprint(d.MessageId, d.CorrelationId, d.Type, d.Body)
			in.step.First, in.step.Generation = in.step.First+mark, in.step.Generation+mark
		}
	}
	reply, err := r.blocked.Step(ctx, in.step)
	if err != nil {
		return 0, err
	}
	if in.step, in.position = nil, reply.Position; in.position != (counter.Position{}) {
		in.carried = &in.position // a dead letter that was moved back has its own again
	}
	next := decideLane(act, reply.Code)
	if next == stepLeave {
		d.result.err = fmt.Errorf("%w: queue %q, lane %q", laneErrors[reply.Code], r.s.Queue, d.lane)
	}
	return next, nil
}

// decideLane returns the step for the store's reply on a step of a lane: stepReceived if the message may run.
func decideLane(act rules.LaneAct, v rules.LaneCode) step {
	switch {
	case v == rules.LaneUnowned || v == rules.LaneUnknown:
		return stepLeave
	case act == rules.LaneBlock:
		return stepDeadLetter
	case act == rules.LaneLeave, v == rules.LaneSuperseded:
		return stepAck
	case v == rules.LaneBlocked:
		return stepDeadLetter
	}
	return stepReceived
}

var laneErrors = map[rules.LaneCode]error{rules.LaneUnowned: lanes.ErrUnowned, rules.LaneUnknown: errLaneUnknown}

var (
	errLaneBlocked = errors.New("an earlier message blocks the lane")
	errLaneUnknown = errors.New("consumer: the store has lost its memory of blocked lanes: dead letters of a lane may " +
		"be overtaken; replay them before its new messages")
)
