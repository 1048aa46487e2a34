package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
)

// landing rejects a message and takes it out of the dead-letter queues.
func (p *Proof) landing(ctx context.Context, conn *amqp.Connection, f inspect.Facts) error {
	const what = "whether a rejected message lands was not tried"
	if reason := unsafe(f); reason != "" {
		p.untried(what, reason)
		return nil
	}
	for _, t := range f.Vitals.Targets {
		_, q, err := broker.FindQueue(ctx, conn, t.Name)
		if err != nil {
			return err
		}
		if reason := occupied(q); reason != "" {
			p.untried(what, reason).Fix = instead(f, q)
			return nil
		}
	}
	id := "strikes.probe." + uuid.NewString()
	return onScratch(ctx, conn, landingArguments(f), func(s scratch) error {
		d, _, err := s.fill(ctx, id)
		if err == nil {
			err = d.Nack(false, false)
		}
		var missing []string
		for _, t := range f.Vitals.Targets {
			if err != nil {
				return err
			}
			var landed bool
			if landed, err = takeOut(ctx, conn, t.Name, id); landed {
				p.Proven = append(p.Proven, fmt.Sprintf("a rejected message landed in %q, and was taken out again", t.Name))
			} else {
				missing = append(missing, t.Name)
			}
		}
		if err == nil && len(missing) > 0 {
			exchange, _ := f.DeadLetterExchange()
			p.found("probe-lost", inspect.Vars{"queues": fmt.Sprintf("%q", missing), "exchange": fmt.Sprintf("%q", exchange),
				"wait": probeWait})
		}
		return err
	})
}

// unsafe says why a scratch message must not go through the dead-letter route; "" if it may.
func unsafe(f inspect.Facts) string {
	exchange, set := f.DeadLetterExchange()
	_, fixed := f.DeadLetterKey()
	switch {
	case f.Exclusive || f.Type == "":
		return "the declaration of the queue cannot be read"
	case !set:
		return "no dead-letter exchange is seen"
	case f.Vitals == nil:
		return "the queues that dead letters reach cannot be seen over AMQP; give the URL of the management API (Management)"
	case len(f.Route.Loops) > 0:
		return "dead letters come back to the queue itself, where consumers would get it"
	case len(f.Exchange.Bindings) > 0 && f.Exchange.Kind == "headers", len(f.Exchange.Bindings) > 0 && !fixed &&
		f.Exchange.Picks():
		return fmt.Sprintf("the exchange %q of type %q routes dead letters by their keys or headers", exchange,
			f.Exchange.Kind)
	case len(f.Vitals.Targets) == 0:
		return "the dead letters reach no queue"
	}
	for _, q := range f.Vitals.Targets {
		_, expires := q.TTL()
		if expires || q.SingleActive() || q.Exclusive || q.Type != broker.Classic && q.Type != broker.Quorum {
			return fmt.Sprintf("a message cannot be taken out of the dead-letter queue %q again (expiry, single active "+
				"consumer, exclusive, or a stream)", q.Name)
		}
	}
	return ""
}

// occupied says why a scratch message could not be put into the queue and taken out again. Dead letters that are there
// would have to be delivered first, which quorum queues count.
func occupied(q amqp.Queue) string {
	switch {
	case q.Consumers > 0:
		return fmt.Sprintf("%s of the dead-letter queue %q would get the scratch message", printable.Plural(q.Consumers,
			"consumer"), q.Name)
	case q.Messages > 0:
		return fmt.Sprintf("the dead-letter queue %q holds %s, which would be delivered before the scratch message", q.Name,
			printable.Plural(q.Messages, "dead letter"))
	}
	return ""
}

// instead says how else to learn whether dead letters land.
func instead(f inspect.Facts, q amqp.Queue) string {
	first := "replay or drop its dead letters (strikes dead)"
	if q.Consumers > 0 {
		first = "stop its consumers for a moment"
	}
	return fmt.Sprintf("%s and probe again; or compare the dead letters there with the messages that consumers "+
		"rejected: strikes status --dead-letter-queue %s %s",
		first, shell.Word(q.Name), shell.Operands(f.Name))
}

// landingArguments are those that decide where dead letters go.
func landingArguments(f inspect.Facts) amqp.Table {
	exchange, _ := f.DeadLetterExchange()
	args := amqp.Table{broker.ArgType: f.Type, broker.ArgDeadLetterExchange: exchange}
	if key, fixed := f.DeadLetterKey(); fixed {
		args[broker.ArgDeadLetterKey] = key
	}
	if f.Type != broker.Quorum {
		return args
	}
	if f.DeadLetterStrategy() == "at-least-once" {
		args[broker.ArgStrategy] = "at-least-once"
	}
	if o := f.Overflow(); o != "" {
		args[broker.ArgOverflow] = o
	}
	return args
}

// takeOut waits for the message and acks it. It holds real dead letters that come meanwhile, and returns them.
func takeOut(ctx context.Context, conn *amqp.Connection, queue, id string) (landed bool, err error) {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	end := time.NewTimer(probeWait)
	defer end.Stop()
	err = broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
		for {
			d, came, err := ch.Get(queue, false)
			switch {
			case err != nil:
				return err
			case came && d.MessageId == id:
				landed = true
				return d.Ack(false)
			case came: // it returns when the channel closes
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
