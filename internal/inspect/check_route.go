package inspect

import (
	"context"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// CheckRoute returns the known reasons why a message that the queue rejects now would be lost or come back. It waits
// for no policy.
func CheckRoute(ctx context.Context, conn *amqp.Connection, need Need) ([]Finding, error) {
	g, err := NewGatherer(conn, need, false)
	if err != nil {
		return nil, err
	}
	f, err := g.Gather(ctx)
	if err != nil {
		return nil, g.Failed("check the dead-letter route of", err)
	}
	if f.full, err = g.fullQueues(ctx, f); err != nil {
		return nil, g.Failed("check the dead-letter queues of", err)
	}
	return slices.DeleteFunc(Judge(routeRules(f), f, need), func(x Finding) bool {
		return x.Severity < Error || x.Code == CodeDeadLetterUnproven
	}), nil
}

// routeRules judge whether a dead letter would be lost now, or come back.
func routeRules(f Facts) []Rule {
	if f.KeepsDeadLetters() {
		return []Rule{loopRule}
	}
	return []Rule{deadLetterRule, deadLetterRouteRule, astrayRule, loopRule, fullRule}
}

// fullQueues returns the dead-letter queues that refuse a message now. A passive declare counts the messages that count
// against x-max-length. Quorum queues do not refuse what is dead-lettered at most once (measured on 3.10, 4.0 and 4.3).
func (g Gatherer) fullQueues(ctx context.Context, f Facts) ([]broker.Queue, error) {
	var full []broker.Queue
	for _, q := range f.targets() {
		limit, set := q.MaxLength()
		if !set || q.DropsHead() || q.Type != broker.Classic {
			continue
		}
		_, state, err := broker.FindQueue(ctx, g.conn, q.Name)
		if err := broker.UnlessRefused(err); err != nil {
			return nil, err
		}
		if int64(state.Messages) >= limit {
			full = append(full, q)
		}
	}
	return full, nil
}

func fullRule(f Facts, _ Need) []Finding {
	var out []Finding
	for _, q := range f.full {
		out = append(out, Say("dead-letter-queue-full", Vars{"queue": quoted(q.Name), "length": q.LengthText()}))
	}
	return out
}
