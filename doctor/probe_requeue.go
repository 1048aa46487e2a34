package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

// requeue requeues the first of three messages, and sees whether it comes again first, last or not at all.
func (p *Proof) requeue(ctx context.Context, conn *amqp.Connection, f inspect.Facts) error {
	const what = "where a requeued message goes was not tried"
	switch {
	case f.Exclusive:
		p.untried(what, "the queue is exclusive")
		return nil
	case f.Unread != "":
		p.untried(what, "the declaration of the queue cannot be read: "+f.Unread)
		return nil
	case f.Type != broker.Classic && f.Type != broker.Quorum:
		p.untried(what, fmt.Sprintf("the queue is of type %q", f.Type))
		return nil
	}
	return onScratch(ctx, conn, requeueArguments(f), func(s scratch) error {
		d, rest, err := s.fill(ctx, "1", "2", "3")
		if err == nil {
			err = d.Nack(false, true)
		}
		limit := inspect.Vars{"limit": broker.DefaultDeliveryLimit}
		for seen := 0; err == nil; seen++ {
			switch d, err = next(ctx, rest); {
			case errors.Is(err, errSilent) && seen == 2:
				p.found("probe-discards", limit)
				return nil
			case err != nil:
				return err
			case d.MessageId == "1" && seen == 0:
				p.Proven = append(p.Proven, "a requeued message was redelivered first")
				return d.Ack(false)
			case d.MessageId == "1":
				p.found("probe-tail", limit)
				return d.Ack(false)
			}
			err = d.Ack(false)
		}
		return err
	})
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
