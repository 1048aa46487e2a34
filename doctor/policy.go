package doctor

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

// changes returns the keys of a policy that fix the findings of a code.
func (p patient) changes(code string, need inspect.Need) amqp.Table {
	_, strategy := p.Args[broker.ArgStrategy]
	atLeastOnce := amqp.Table{}
	if p.Type == broker.Quorum && (!strategy || p.DeadLetterStrategy() == "at-least-once") {
		atLeastOnce = amqp.Table{"dead-letter-strategy": "at-least-once", "overflow": "reject-publish"}
	}
	switch code {
	case inspect.CodeNoDeadLetterExchange:
		return broker.Merge(amqp.Table{"dead-letter-exchange": broker.ExchangeFor(p.Name)}, atLeastOnce)
	case inspect.CodeLoop:
		if p.loopByPolicy() {
			return amqp.Table{"dead-letter-exchange": broker.ExchangeFor(p.Name)}
		}
	case inspect.CodeTail, inspect.CodeLimitLow, inspect.CodeLimitTight:
		if want := need.SpareLimit(); p.Type == broker.Quorum && !p.LimitFixed(want) {
			return amqp.Table{"delivery-limit": want}
		}
	case inspect.CodeAtMostOnce:
		return atLeastOnce
	case inspect.CodeDropsHead:
		return amqp.Table{"overflow": "reject-publish"}
	}
	return nil
}

// loopByPolicy reports whether the queue needs another dead-letter exchange, and a policy can set it.
func (p patient) loopByPolicy() bool {
	_, byArgument := p.Args[broker.ArgDeadLetterExchange].(string)
	exchange, _ := p.DeadLetterExchange()
	now, _ := p.SortLoops()
	return !byArgument && !p.OwnsExchange(exchange) &&
		!slices.ContainsFunc(now, func(l inspect.Loop) bool { return l.LastQueue() != (inspect.Node{}) })
}

// setPolicy gives a queue a policy of its own: the definition of its present policy, which no longer applies, without
// some keys and with others. Its pattern matches no other queue, and the policies in force on others stay. ok is
// false if the present policy is not known, or if an operator's policy undoes the change.
func (p patient) setPolicy(q broker.Queue, without []string, set amqp.Table) (s Step, ok bool) {
	if p.API == nil || !q.PolicyKnown || len(set) == 0 {
		return Step{}, false
	}
	pattern := "^" + regexp.QuoteMeta(q.Name) + "$"
	definition, priority := amqp.Table{}, 0
	for _, have := range p.Policies.User {
		if have.Name == q.PolicyName {
			definition = broker.Merge(amqp.Table(have.Definition))
		}
		priority = max(priority, have.Priority)
	}
	for _, key := range without {
		delete(definition, key)
	}
	definition = broker.Merge(definition, set)
	name := "strikes." + q.Name
	for slices.ContainsFunc(p.Policies.User, func(have broker.Policy) bool {
		return have.Name == name && have.Pattern != pattern
	}) {
		name += ".queue" // the name is taken, for other queues
	}
	effective := broker.JoinPolicies(definition, q.OperatorPolicy)
	for k, v := range set {
		if effective[k] != v {
			return Step{}, false
		}
	}
	body := map[string]any{"pattern": pattern, "apply-to": "queues", "priority": priority + 1, "definition": definition}
	return p.step(nil, broker.Request{Method: "PUT", Body: body, Path: []string{"policies", p.VHost, name}},
		"set the policy %q for the queue %q alone: %s", name, q.Name, pairs(definition)), true
}

// pairs writes the definition of a policy.
func pairs(definition amqp.Table) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(definition)) {
		all = append(all, fmt.Sprintf("%s=%v", key, definition[key]))
	}
	return strings.Join(all, ", ")
}

// harmful are keys of a policy for which a dead-letter queue loses or moves dead letters.
var harmful = []string{
	"dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy", "delivery-limit", "expires", "max-length",
	"max-length-bytes",
	"message-ttl", "overflow",
}

// keep gives a dead-letter queue a policy of its own if its present one, or the one that it would get, does not let
// it keep dead letters. Policies match by name: one for "orders" is often meant for "orders.dlq" too, by mistake.
// refused has why that is not enough.
func (p patient) keep(q broker.Queue) (steps []Step, refused []string) {
	refused = unfit(q)
	if _, few := inspect.FewReturns(q); len(refused) == 0 && !few {
		return nil, nil
	}
	set := amqp.Table{"overflow": "reject-publish"}
	if q.Type == broker.Quorum {
		set = amqp.Table{"delivery-limit": int64(broker.DeadLetterLimit)}
	}
	s, ok := p.setPolicy(q, harmful, set)
	kept := q
	kept.Policy = broker.JoinPolicies(set, q.OperatorPolicy)
	if _, few := inspect.FewReturns(kept); ok && len(unfit(kept)) == 0 && (len(refused) > 0 || !few) {
		return []Step{s}, nil
	}
	return nil, refused
}

// planned is a dead-letter queue as declareQueue declares it, with the policy that it would get.
func (p patient) planned(name string) broker.Queue {
	q := broker.Queue{VHost: p.VHost, Version: p.Version, Name: name, PolicyKnown: true,
		Declared: broker.Declared{Type: broker.Quorum, Durable: true, Args: broker.DeadLetterArguments()}}
	p.Policies.Apply(&q)
	return q
}

// unfit returns why a queue cannot keep dead letters; empty: it can.
func unfit(q broker.Queue) (why []string) {
	why = inspect.Temporary(q)
	if q.Type == broker.Stream {
		why = append(why, "is a stream, from which nothing can be replayed or dropped")
	}
	if ttl, expires := q.TTL(); expires {
		why = append(why, fmt.Sprintf("keeps messages for %d ms", ttl))
	}
	if q.Limited() && q.DropsHead() {
		why = append(why, fmt.Sprintf("holds %s at most, and then loses the oldest", q.LengthText()))
	}
	if further, on := q.DeadLetterExchange(); on {
		why = append(why, fmt.Sprintf("dead-letters further, to the exchange %q", further))
	}
	for i := range why {
		why[i] = fmt.Sprintf("the queue %q %s", q.Name, why[i])
	}
	return why
}
