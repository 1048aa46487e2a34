package topology

import (
	"context"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// CheckRoute returns a [*RefusedError] if it knows that a message which the queue rejects now would be lost or come back, else nil.
// After any other error nothing is known. Consumers repeat the check while they run, because a route can break.
//
// It judges only what it can see. Without need.Management it sees that the dead-letter exchange does not exist, or, if that is
// the default exchange, that its queue does not exist or is full. With it, also bindings, policies and other full queues. A quorum
// queue with at-least-once dead lettering keeps its dead letters through all of that; there only a loop is an error.
// CheckRoute changes nothing, waits for no policy, and uses channels of its own.
func CheckRoute(ctx context.Context, conn *amqp.Connection, need Need) error {
	if need.AllowDrop {
		return nil
	}
	g, err := newGatherer(conn, need, false)
	if err != nil {
		return err
	}
	f, err := g.gather(ctx)
	if err != nil {
		return g.failed("check the dead-letter route of", err)
	}
	if f.full, err = g.fullTargets(ctx, f); err != nil {
		return g.failed("check the dead-letter queues of", err)
	}
	broken := slices.DeleteFunc(judgeBy(routeRules(f), f, need), func(x Finding) bool {
		return x.Severity < Error || x.Code == codeDeadLetterUnproven
	})
	if len(broken) > 0 {
		return &RefusedError{Queue: need.Queue, Findings: broken}
	}
	return nil
}

// routeRules judge whether a dead letter would be lost now, or come back.
func routeRules(f facts) []rule {
	if f.KeepsDeadLetters() {
		return []rule{loopRule}
	}
	return []rule{deadLetterRule, deadLetterRouteRule, astrayRule, loopRule, fullRule}
}

// fullTargets returns the dead-letter queues that refuse a message now. A passive declare counts the messages that count
// against x-max-length. Quorum queues do not refuse what is dead-lettered at most once (measured on 3.10, 4.0 and 4.3).
func (g gatherer) fullTargets(ctx context.Context, f facts) ([]target, error) {
	var full []target
	for _, t := range f.targets() {
		limit, set := t.MaxLength()
		if !set || t.DropsHead() || t.Type != queueinfo.Classic {
			continue
		}
		_, q, err := queueinfo.Find(ctx, g.conn, t.Name)
		if err := queueinfo.UnlessRefused(err); err != nil {
			return nil, err
		}
		if int64(q.Messages) >= limit {
			full = append(full, t)
		}
	}
	return full, nil
}

func fullRule(f facts, _ Need) []Finding {
	var out []Finding
	for _, t := range f.full {
		out = append(out, Finding{
			Code: "dead-letter-queue-full", Severity: Error,
			Seen: fmt.Sprintf("the dead-letter queue %q is full: it holds at most %s, and refuses more", t.Name, t.LengthText()),
			Why:  "rejected messages are lost silently",
			Fix:  fmt.Sprintf("replay or drop dead letters of %q, or let it hold more", t.Name),
		})
	}
	return out
}
