package consumer

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

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
