package doctor

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/management"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

// patient is a queue to be fixed.
type patient struct{ inspect.Facts }

// fix writes the commands of findings that a policy, a dead-letter queue or a binding fixes. One command sets all that a policy fixes,
// for a second one would undo the first.
func (p patient) fix(findings []inspect.Finding, need inspect.Need) {
	changes := amqp.Table{}
	for _, x := range findings {
		changes = queueinfo.Merge(changes, p.changes(x.Code, need))
	}
	policy := p.setPolicy(p.Queue, changes)
	if exchange, moves := changes["dead-letter-exchange"].(string); moves {
		policy = both(p.declareRoute(exchange), policy) // before anything is sent there
	}
	for i, x := range findings {
		if len(p.changes(x.Code, need)) > 0 {
			findings[i].Command = policy
		} else {
			findings[i].Command = p.command(x)
		}
	}
}

// command fixes a finding that the policy of the queue does not fix.
func (p patient) command(x inspect.Finding) string {
	exchange, _ := p.DeadLetterExchange()
	switch x.Code {
	case inspect.CodeLoop:
		return p.unbind()
	case inspect.CodeExchangeMissing:
		return p.declareRoute(exchange)
	case inspect.CodeUnbound:
		if p.Exchange.Alternate == "" {
			return p.declareEnd(exchange, p.Exchange.Kind)
		}
	case inspect.CodeQueueMissing:
		key, _ := p.DeadLetterKey()
		return p.declareQueue(key)
	case inspect.CodePolicyNotApplied:
		return p.strip(x.About)
	case inspect.CodeDeadLetterLimit:
		for _, q := range p.Vitals.Targets {
			if _, byArgument := q.Args[queueinfo.ArgDeliveryLimit]; q.Name == x.About && !byArgument {
				return p.setPolicy(q, amqp.Table{"delivery-limit": queueinfo.DeadLetterLimit})
			}
		}
	}
	return ""
}

// changes returns the keys of a policy that fix the findings of a code.
func (p patient) changes(code string, need inspect.Need) amqp.Table {
	_, strategy := p.Args[queueinfo.ArgStrategy]
	atLeastOnce := amqp.Table{}
	if p.Type == queueinfo.Quorum && (!strategy || p.DeadLetterStrategy() == "at-least-once") {
		atLeastOnce = amqp.Table{"dead-letter-strategy": "at-least-once", "overflow": "reject-publish"}
	}
	switch code {
	case inspect.CodeNoDeadLetterExchange:
		return queueinfo.Merge(amqp.Table{"dead-letter-exchange": queueinfo.ExchangeFor(p.Name)}, atLeastOnce)
	case inspect.CodeLoop:
		if p.loopByPolicy() {
			return amqp.Table{"dead-letter-exchange": queueinfo.ExchangeFor(p.Name)}
		}
	case inspect.CodeTail, inspect.CodeLimitLow, inspect.CodeLimitTight:
		if want := need.SpareLimit(); p.Type == queueinfo.Quorum && !p.LimitFixed(want) {
			return amqp.Table{"delivery-limit": want}
		}
	case inspect.CodeAtMostOnce:
		return atLeastOnce
	case inspect.CodeDropsHead:
		return amqp.Table{"overflow": "reject-publish"}
	}
	return nil
}

// setPolicy gives a queue a policy of its own: the definition of its present policy, which no longer applies, with the changes. It
// returns "" if that policy is not known, or if an operator's policy undoes the changes.
func (p patient) setPolicy(q queueinfo.Queue, changes amqp.Table) string {
	if !p.Policies.Known || !q.PolicyKnown || len(changes) == 0 {
		return ""
	}
	pattern := "^" + regexp.QuoteMeta(q.Name) + "$"
	definition, priority := changes, 0
	for _, have := range p.Policies.User {
		if have.Name == q.PolicyName {
			definition = queueinfo.Merge(have.Definition, changes)
		}
		priority = max(priority, have.Priority)
	}
	name := "strikes." + q.Name
	for slices.ContainsFunc(p.Policies.User, func(have management.Policy) bool { return have.Name == name && have.Pattern != pattern }) {
		name += ".queue" // the name is taken, for other queues
	}
	effective := management.Join(definition, q.OperatorPolicy)
	for k, v := range changes {
		if effective[k] != v {
			return ""
		}
	}
	own := map[string]any{"pattern": pattern, "apply-to": "queues", "priority": priority + 1, "definition": definition}
	return p.API.Curl("PUT", own, "policies", p.VHost, name)
}

// strip sets a policy without the keys that are foreign to the queue; "" if none would be left.
func (p patient) strip(policy string) string {
	i := slices.IndexFunc(p.Policies.User, func(have management.Policy) bool { return have.Name == policy })
	if i < 0 {
		return ""
	}
	have := p.Policies.User[i]
	left := maps.Clone(have.Definition)
	for _, k := range have.ForeignTo(p.Type) {
		delete(left, k)
	}
	if len(left) == 0 {
		return ""
	}
	body := map[string]any{"pattern": have.Pattern, "apply-to": have.ApplyTo, "priority": have.Priority, "definition": left}
	return p.API.Curl("PUT", body, "policies", p.VHost, have.Name)
}

// declareRoute declares a fanout exchange with a dead-letter queue.
func (p patient) declareRoute(exchange string) string {
	fanout := map[string]any{"type": "fanout", "durable": true}
	return both(p.API.Curl("PUT", fanout, "exchanges", p.VHost, exchange), p.declareEnd(exchange, "fanout"))
}

// declareEnd binds a dead-letter queue to the exchange of this kind, and declares it unless it exists. It returns "" if no binding
// would take every dead letter.
func (p patient) declareEnd(exchange, kind string) string {
	key, fixed := p.DeadLetterKey()
	switch {
	case kind == "topic" && !fixed:
		key = "#"
	case kind == "direct" && !fixed:
		return ""
	}
	queue := queueinfo.DeadLetterQueueFor(p.Name)
	bind := p.API.Curl("POST", map[string]any{"routing_key": key}, "bindings", p.VHost, "e", exchange, "q", queue)
	if p.Known.Queues[queue] != nil {
		return bind
	}
	return both(p.declareQueue(queue), bind)
}

func (p patient) declareQueue(name string) string {
	queue := map[string]any{"durable": true, "arguments": queueinfo.DeadLetterArguments()}
	return p.API.Curl("PUT", queue, "queues", p.VHost, name)
}

// unbind removes the bindings that lead back, if that breaks every loop, and first makes dead letters reach a queue. It returns "" if
// other messages may need them.
func (p patient) unbind() string {
	now, _ := p.SortLoops()
	line := ""
	if len(p.Route.Landings) == 0 {
		exchange, _ := p.DeadLetterExchange()
		line = p.declareEnd(exchange, p.Exchange.Kind)
	}
	for i, l := range now {
		if !p.OwnsExchange(l.Exchange()) || l.LastQueue() != (inspect.Node{}) || l.Last.Properties == "" {
			return ""
		}
		unbind := p.API.Curl("DELETE", nil, "bindings", p.VHost, "e", l.Exchange(), "q", p.Name, l.Last.Properties)
		if i == 0 && line == "" {
			line = unbind
		} else {
			line = both(line, unbind)
		}
	}
	return line
}

// loopByPolicy reports whether the queue needs another dead-letter exchange, and a policy can set it.
func (p patient) loopByPolicy() bool {
	_, byArgument := p.Args[queueinfo.ArgDeadLetterExchange].(string)
	exchange, _ := p.DeadLetterExchange()
	now, _ := p.SortLoops()
	return !byArgument && !p.OwnsExchange(exchange) &&
		!slices.ContainsFunc(now, func(l inspect.Loop) bool { return l.LastQueue() != (inspect.Node{}) })
}

// both runs the second line if the first succeeds; "" if one cannot be written.
func both(first, second string) string {
	if first == "" || second == "" {
		return ""
	}
	return strings.Join([]string{first, second}, " && ")
}
