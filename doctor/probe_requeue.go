package doctor

import (
	"context"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

// probeRequeue requeues the first of three messages and checks when it comes again.
func probeRequeue(ctx context.Context, conn *amqp.Connection, f inspect.Facts) (Proof, error) {
	const what = "where a requeued message goes was not tried"
	switch {
	case f.Exclusive:
		return untried(what, "the queue is exclusive"), nil
	case f.Unread != "":
		return untried(what, "the declaration of the queue cannot be read: "+f.Unread), nil
	case f.Type != broker.Classic && f.Type != broker.Quorum:
		return untried(what, fmt.Sprintf("the queue is of type %q", f.Type)), nil
	}
	var at broker.Position
	err := onScratch(ctx, conn, requeueArguments(f), func(s scratch) (err error) {
		at, err = s.requeue(ctx)
		return err
	})
	if err != nil {
		return Proof{}, err
	}
	return requeueProof(at), nil
}

// requeueArguments are those that decide the position. The scratch queue drops its dead letters, whatever a policy for
// all queues says.
func requeueArguments(f inspect.Facts) amqp.Table {
	args := amqp.Table{
		broker.ArgType: f.Type, broker.ArgDeadLetterExchange: "", broker.ArgDeadLetterKey: "strikes.probe.none",
	}
	for name, value := range f.Args {
		if name == broker.ArgSingleActive || name == broker.ArgMaxPriority || strings.HasPrefix(name,
			"x-delayed-retry") {
			args[name] = value
		}
	}
	if limit, set := f.DeliveryLimit(); set && f.Type == broker.Quorum {
		args[broker.ArgDeliveryLimit] = limit
	}
	return args
}

// requeue returns where the first of three messages went: to the head, the tail, or nowhere.
func (s scratch) requeue(ctx context.Context) (broker.Position, error) {
	deliveries, err := s.fill(ctx, "1", "2", "3")
	if err != nil {
		return 0, err
	}
	d, _, err := next(ctx, deliveries)
	if err != nil {
		return 0, err
	}
	if err := d.Nack(false, true); err != nil {
		return 0, err
	}
	for seen := 0; ; seen++ {
		d, came, err := next(ctx, deliveries)
		switch {
		case err != nil:
			return 0, err
		case !came && seen < 2:
			return 0, errSilent
		case !came:
			return broker.PositionDiscarded, nil
		case d.MessageId == "1" && seen == 0:
			return broker.PositionHead, d.Ack(false)
		case d.MessageId == "1":
			return broker.PositionTail, d.Ack(false)
		}
		if err := d.Ack(false); err != nil {
			return 0, err
		}
	}
}

var errSilent = fmt.Errorf("the scratch queue delivered nothing within %v", probeWait)

func requeueProof(at broker.Position) Proof {
	limit := inspect.Vars{"limit": broker.DefaultDeliveryLimit}
	switch at {
	case broker.PositionHead:
		return Proof{Proven: []string{"a requeued message was redelivered first"}}
	case broker.PositionTail:
		return Proof{Findings: []inspect.Finding{inspect.Say("probe-tail", limit)}}
	default:
		return Proof{Findings: []inspect.Finding{inspect.Say("probe-discards", limit)}}
	}
}
