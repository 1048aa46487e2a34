package topology

import (
	"regexp"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// mend writes the commands of the findings that a policy, or a dead-letter
// queue, mends. All that a policy mends is one command, for a second would undo
// the first.
func (f facts) mend(findings []Finding, need Need) {
	changes := amqp.Table{}
	for _, x := range findings {
		changes = queueinfo.Merge(changes, f.changes(x.Code, need))
	}
	policy := f.setPolicy(changes)
	if exchange, moves := changes["dead-letter-exchange"].(string); moves {
		policy = both(f.makeWay(exchange), policy) // before anything is sent there
	}
	for i, x := range findings {
		switch {
		case x.Command != "":
		case len(f.changes(x.Code, need)) > 0:
			findings[i].Command = policy
		case x.Code == codeLoop:
			findings[i].Command = f.unloop()
		case x.Code == "dead-letter-exchange-missing":
			exchange, _ := f.DeadLetterExchange()
			findings[i].Command = f.makeWay(exchange)
		case x.Code == "dead-letter-unbound" && !f.way.alternate:
			exchange, _ := f.DeadLetterExchange()
			findings[i].Command = f.makeEnd(exchange, f.way.kind)
		case x.Code == "dead-letter-queue-missing":
			key, _ := f.DeadLetterKey()
			findings[i].Command = f.makeQueue(key)
		}
	}
}

// changes are the keys of a policy that mend what a code stands for.
func (f facts) changes(code string, need Need) amqp.Table {
	_, strategy := f.Args[queueinfo.ArgStrategy]
	atLeastOnce := amqp.Table{}
	if f.Type == queueinfo.Quorum && (!strategy || f.DeadLetterStrategy() == "at-least-once") {
		atLeastOnce = amqp.Table{"dead-letter-strategy": "at-least-once", "overflow": "reject-publish"}
	}
	switch {
	case code == codeNoDeadLetterExchange:
		return queueinfo.Merge(amqp.Table{"dead-letter-exchange": f.Name + ".dlx"}, atLeastOnce)
	case code == codeLoop && f.loopByPolicy():
		return amqp.Table{"dead-letter-exchange": f.Name + ".dlx"}
	case (code == codeTail || code == codeLimitLow || code == codeLimitTight) && !f.limitFixed(need.roomyLimit()) && f.Type == queueinfo.Quorum:
		return amqp.Table{"delivery-limit": need.roomyLimit()}
	case code == codeAtMostOnce:
		return atLeastOnce
	case code == codeDropsHead:
		return amqp.Table{"overflow": "reject-publish"}
	}
	return nil
}

// setPolicy gives the queue a policy of its own: the definition of its present
// policy, which no longer applies, with the changes. It returns "" if that is not
// known, or if an operator's policy undoes the changes.
func (f facts) setPolicy(changes amqp.Table) string {
	if !f.policies.known || !f.PolicyKnown || len(changes) == 0 {
		return ""
	}
	pattern := "^" + regexp.QuoteMeta(f.Name) + "$"
	definition, priority := changes, 0
	for _, p := range f.policies.user {
		if p.Name == f.PolicyName {
			definition = queueinfo.Merge(p.Definition, changes)
		}
		priority = max(priority, p.Priority)
	}
	name := "strikes." + f.Name
	for slices.ContainsFunc(f.policies.user, func(p apiPolicy) bool { return p.Name == name && p.Pattern != pattern }) {
		name += ".queue" // the name is taken, for other queues
	}
	effective := joined(definition, f.operator)
	for k, v := range changes {
		if effective[k] != v {
			return ""
		}
	}
	own := map[string]any{"pattern": pattern, "apply-to": "queues", "priority": priority + 1, "definition": definition}
	return f.console.request("PUT", own, "policies", f.VHost, name)
}

// makeWay makes a fanout exchange with a dead-letter queue.
func (f facts) makeWay(exchange string) string {
	fanout := map[string]any{"type": "fanout", "durable": true}
	return both(f.console.request("PUT", fanout, "exchanges", f.VHost, exchange), f.makeEnd(exchange, "fanout"))
}

// makeEnd binds a dead-letter queue to the exchange of this kind, and makes it
// unless it exists. It returns "" if no binding would take every dead letter.
func (f facts) makeEnd(exchange, kind string) string {
	key, fixed := f.DeadLetterKey()
	switch {
	case kind == "topic" && !fixed:
		key = "#"
	case kind == "direct" && !fixed:
		return ""
	}
	bind := f.console.request("POST", map[string]any{"routing_key": key}, "bindings", f.VHost, "e", exchange, "q", f.Name+".dlq")
	if f.known.queues[f.Name+".dlq"] != nil {
		return bind
	}
	return both(f.makeQueue(f.Name+".dlq"), bind)
}

func (f facts) makeQueue(name string) string {
	queue := map[string]any{"durable": true, "arguments": queueinfo.DeadLetterArguments()}
	return f.console.request("PUT", queue, "queues", f.VHost, name)
}

// both runs the second line if the first succeeds; "" if one cannot be written.
func both(first, second string) string {
	if first == "" || second == "" {
		return ""
	}
	return strings.Join([]string{first, second}, " && ")
}
