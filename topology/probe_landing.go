package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/internal/shell"
)

// probeLanding rejects a message and takes it out of the dead-letter queues.
func probeLanding(ctx context.Context, conn *amqp.Connection, f facts) (Proof, error) {
	const what = "whether a rejected message lands was not tried"
	if reason := f.unsafe(); reason != "" {
		return untried(what, reason), nil
	}
	for _, t := range f.vitals.targets {
		_, q, err := queueinfo.Find(ctx, conn, t.Name)
		if err != nil {
			return Proof{}, err
		}
		if reason := occupied(q); reason != "" {
			proof := untried(what, reason)
			proof.Findings[0].Fix = f.instead(q)
			return proof, nil
		}
	}
	var missing []string
	id := "strikes.probe." + uuid.NewString()
	err := onScratch(ctx, conn, f.landingArguments(), func(s scratch) error {
		if err := s.reject(ctx, id); err != nil {
			return err
		}
		for _, t := range f.vitals.targets {
			landed, err := takeOut(ctx, conn, t.Name, id)
			if err != nil {
				return err
			}
			if !landed {
				missing = append(missing, t.Name)
			}
		}
		return nil
	})
	if err != nil {
		return Proof{}, err
	}
	return f.landingProof(missing), nil
}

// unsafe says why a scratch message must not be sent the way of the dead
// letters; "" if it may.
func (f facts) unsafe() string {
	exchange, set := f.DeadLetterExchange()
	_, fixed := f.DeadLetterKey()
	switch {
	case f.Exclusive || f.Type == "":
		return "how the queue was declared cannot be read"
	case !set:
		return "no dead-letter exchange is seen"
	case f.vitals == nil:
		return "which queues the dead letters reach cannot be seen over AMQP; give the URL of the management API (Management, --management-url)"
	case f.vitals.back:
		return "dead letters lead back to the queue itself, where consumers would get it"
	case len(f.way.bindings) > 0 && f.way.kind == "headers", len(f.way.bindings) > 0 && !fixed && f.way.picks():
		return fmt.Sprintf("where a dead letter goes behind the exchange %q depends on the message, of type %q", exchange, f.way.kind)
	case len(f.vitals.targets) == 0:
		return "the dead letters reach no queue"
	}
	for _, t := range f.vitals.targets {
		_, expires := t.TTL()
		single, _ := t.Args[queueinfo.ArgSingleActive].(bool)
		if expires || single || t.Exclusive || t.Type != queueinfo.Classic && t.Type != queueinfo.Quorum {
			return fmt.Sprintf("the dead-letter queue %q is not one that a message can be taken out of again (expiry, single active consumer, exclusive, or a stream)", t.Name)
		}
	}
	return ""
}

// occupied says what keeps a scratch message from being put into the queue and
// taken out again. There is no way around dead letters that are there already:
// the message would come behind them, so that they had to be handed out first,
// which quorum queues count, or it would have to stay.
func occupied(q amqp.Queue) string {
	switch {
	case q.Consumers > 0:
		return fmt.Sprintf("%s of the dead-letter queue %q would get the scratch message", count(q.Consumers, "consumer"), q.Name)
	case q.Messages > 0:
		return fmt.Sprintf("the dead-letter queue %q holds %s, and the scratch message could not be taken out from behind what is there untouched", q.Name, count(q.Messages, "dead letter"))
	}
	return ""
}

// instead says how else to learn whether dead letters land.
func (f facts) instead(q amqp.Queue) string {
	first := "replay or drop its dead letters (strikes dead)"
	if q.Consumers > 0 {
		first = "stop its consumers for a moment"
	}
	return fmt.Sprintf("%s and probe again; or see whether as many dead letters are there as consumers rejected: strikes status --dead-letter-queue %s %s",
		first, shell.Word(q.Name), shell.Operands(f.Name))
}

// landingArguments are those that bear on dead letters.
func (f facts) landingArguments() amqp.Table {
	exchange, _ := f.DeadLetterExchange()
	args := amqp.Table{queueinfo.ArgType: f.Type, queueinfo.ArgDeadLetterExchange: exchange}
	if key, fixed := f.DeadLetterKey(); fixed {
		args[queueinfo.ArgDeadLetterKey] = key
	}
	if f.Type != queueinfo.Quorum {
		return args
	}
	if f.DeadLetterStrategy() == "at-least-once" {
		args[queueinfo.ArgStrategy] = "at-least-once"
	}
	if o := f.Overflow(); o != "" {
		args[queueinfo.ArgOverflow] = o
	}
	return args
}

func (s scratch) reject(ctx context.Context, id string) error {
	deliveries, err := s.fill(ctx, id)
	if err != nil {
		return err
	}
	d, came, err := next(ctx, deliveries)
	if err != nil {
		return err
	}
	if !came {
		return fmt.Errorf("the scratch queue delivers nothing within %v", probeWait)
	}
	return d.Nack(false, false)
}

// takeOut waits for the message and acks it. Real dead letters that come
// meanwhile are held till then, and given back.
func takeOut(ctx context.Context, conn *amqp.Connection, queue, id string) (landed bool, err error) {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	end := time.NewTimer(probeWait)
	defer end.Stop()
	err = queueinfo.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
		for {
			d, came, err := ch.Get(queue, false)
			switch {
			case err != nil:
				return err
			case came && d.MessageId == id:
				landed = true
				return d.Ack(false)
			case came: // its unsettled delivery returns when the channel closes
				continue
			}
			select {
			case <-poll.C:
			case <-end.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if errors.Is(err, amqp.ErrClosed) && landed {
		err = nil
	}
	return landed, err
}

func (f facts) landingProof(missing []string) Proof {
	exchange, _ := f.DeadLetterExchange()
	if len(missing) > 0 {
		return Proof{Findings: []Finding{{
			Code: "probe-lost", Severity: Error,
			Seen: fmt.Sprintf("a rejected scratch message did not reach the queues %q behind the dead-letter exchange %q within %v", missing, exchange, probeWait),
			Why:  "rejected messages are dropped, and nobody is told",
			Fix:  "look at the bindings of the exchange, at the limits of the queues, and whether they are up",
		}}}
	}
	var proven []string
	for _, t := range f.vitals.targets {
		proven = append(proven, fmt.Sprintf("a rejected message landed in %q, and was taken out again", t.Name))
	}
	return Proof{Proven: proven}
}
