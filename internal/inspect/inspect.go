package inspect

import (
	"context"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// Inspect returns the defects of the queue, and the facts that cannot be seen. It returns none if all is well. With
// Management it may wait 15 s for the policy of a queue that was just declared. It returns broker.ErrNotFound, or an
// error of the connection.
func Inspect(ctx context.Context, conn *amqp.Connection, need Need) ([]Finding, error) {
	f, err := Gather(ctx, conn, need, All)
	if err != nil {
		return nil, err
	}
	return Judge(All, f, need), nil
}

// CheckRoute returns the known reasons why a message that the queue rejects now would be lost or come back. It waits
// for no policy.
func CheckRoute(ctx context.Context, conn *amqp.Connection, need Need) ([]Finding, error) {
	f, err := Gather(ctx, conn, need, nil)
	if err != nil {
		return nil, err
	}
	rules, now := RouteRules, []Finding(nil)
	if f.KeepsDeadLetters() {
		rules = []Rule{loopRule}
	} else if now, err = takingNone(ctx, conn, f); err != nil {
		return nil, fmt.Errorf("check the dead-letter queues of queue %q: %w", need.Queue, err)
	}
	return slices.DeleteFunc(append(Judge(rules, f, need), now...), func(x Finding) bool {
		return x.Severity < Error || x.Code == CodeDeadLetterUnproven
	}), nil
}

// takingNone finds the dead-letter queues that take no message now. A passive declare counts the messages that count
// against x-max-length. Quorum queues do not refuse messages that are dead-lettered at most once (measured on 3.10,
// 4.0 and 4.3), but none takes one while it replays its log. If the bindings of the exchange cannot be seen, the queue
// with the usual name is presumed to be behind it.
func takingNone(ctx context.Context, conn *amqp.Connection, f Facts) (found []Finding, err error) {
	targets := f.targets()
	exchange, _ := f.DeadLetterExchange()
	if usual := EndOf(exchange); f.Exchange.Exists == broker.Yes && exchange != "" && !f.Exchange.Bound &&
		broker.CheckName(usual) == nil {
		targets = append(targets, broker.Queue{Name: usual, Declared: broker.Declared{Type: broker.Quorum}})
	}
	for _, q := range targets {
		limit, set := q.MaxLength()
		switch {
		case q.Away: // awayRule
		case q.Type == broker.Quorum:
			takes, err := broker.Takes(ctx, conn, q.Name)
			if err != nil {
				return nil, err
			}
			if !takes {
				found = append(found, Say(CodeDeadLetterNodeDown, Vars{"queue": quoted(q.Name)}))
			}
		case q.Type == broker.Classic && set && !q.DropsHead():
			_, state, err := broker.FindQueue(ctx, conn, q.Name)
			if err := broker.UnlessRefused(err); err != nil {
				return nil, err
			}
			if int64(state.Messages) >= limit {
				found = append(found, Say("dead-letter-queue-full", Vars{"queue": quoted(q.Name), "length": q.LengthText()}))
			}
		}
	}
	return found, nil
}

// UsualRetries is consumer.DefaultMaxRetries: how many retries a queue must allow if it is not said how many its
// consumers make.
const UsualRetries = 3

// Survey returns the errors of a queue that the lists of its virtual host show. It asks no question about the queue
// itself, and takes its known route. The graph must have all exchanges and queues. Survey sees no consumers. It leaves
// open each error that a policy may fix, if the API does not show that policy yet.
func (g Graph) Survey(of broker.Queue, route Route, product string, need Need) []Finding {
	f := Facts{Description: broker.Description{Queue: of}, Product: product, Known: g, Route: route}
	f.conclude()
	f.Vitals = &Vitals{Targets: f.targets()}
	return slices.DeleteFunc(Judge(RulesFor(of.Name), f, need), func(x Finding) bool {
		return x.Severity < Error || !of.PolicyKnown && mayFix(x)
	})
}

// mayFix reports whether a policy could fix the finding.
func mayFix(x Finding) bool {
	return slices.Contains([]string{
		CodeNoDeadLetterExchange, CodeDeadLetterUnproven, CodeTail, CodeDiscard, CodeLimitLow, CodeLimitTight, CodeAtMostOnce,
	}, x.Code)
}

// RulesFor returns the rules for a queue. Those of the delay queues return their messages to work queues, so the rules
// for a queue that consumers retry from do not hold.
func RulesFor(queue string) []Rule {
	if broker.IsDelayQueue(queue) {
		return nil
	}
	return All
}
