package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

const (
	codeNoDeadLetterExchange = "no-dead-letter-exchange"
	codeDeadLetterUnproven   = "dead-letter-unproven"
	codeAtMostOnce           = "dead-letter-at-most-once"
)

// lost is the severity of a way on which dead letters are lost.
func lost(need Need) Severity {
	if need.AllowDrop {
		return Warning
	}
	return Error
}

// deadLetterRule judges whether the queue names a dead-letter exchange that
// exists.
func deadLetterRule(f facts, need Need) []Finding {
	if f.Type == "" {
		return nil // readableRule
	}
	exchange, set := f.DeadLetterExchange()
	switch {
	case !set && need.AllowDrop:
		return nil
	case !set && f.PolicyKnown:
		return []Finding{{
			Code: codeNoDeadLetterExchange, Severity: Error,
			Seen: "neither an argument of the queue nor its policy names a dead-letter exchange",
			Why:  "rejected messages are dropped, and nobody is told",
			Fix: "set a policy with dead-letter-exchange, or declare the queue anew with " + queueinfo.ArgDeadLetterExchange +
				"; or accept the loss (AllowDrop, --allow-drop)",
		}}
	case !set:
		return []Finding{{
			Code: codeDeadLetterUnproven, Severity: Error,
			Seen: "no argument of the queue names a dead-letter exchange; whether a policy does cannot be seen over AMQP",
			Why:  "without one, rejected messages are dropped, and nobody is told",
			Fix: "if a policy sets it, give the URL of the management API (Management, --management-url) to show it; else set a policy with " +
				"dead-letter-exchange, or declare the queue anew with " + queueinfo.ArgDeadLetterExchange + "; or accept the loss (AllowDrop, --allow-drop)",
		}}
	case f.way.exchange == queueinfo.No:
		return []Finding{{
			Code: "dead-letter-exchange-missing", Severity: lost(need),
			Seen: fmt.Sprintf("the dead-letter exchange %q does not exist", exchange),
			Why:  "rejected messages are dropped, and nobody is told",
			Fix:  fmt.Sprintf("declare the exchange %q and bind a dead-letter queue to it", exchange),
		}}
	case exchange == "":
		return defaultExchange(f, need)
	}
	return nil
}

// defaultExchange delivers to the queue whose name is the routing key.
func defaultExchange(f facts, need Need) []Finding {
	if key, set := f.DeadLetterKey(); set && f.way.queue == queueinfo.No {
		return []Finding{{
			Code: "dead-letter-queue-missing", Severity: lost(need),
			Seen: fmt.Sprintf("the dead-letter exchange is the default exchange, and no queue has the name %q, its routing key", key),
			Why:  "rejected messages are dropped, and nobody is told",
			Fix:  fmt.Sprintf("declare the queue %q", key),
		}}
	}
	return nil
}

// deadLetterRouteRule judges what is bound to the dead-letter exchange.
func deadLetterRouteRule(f facts, need Need) []Finding {
	exchange, _ := f.DeadLetterExchange()
	if exchange == "" || f.way.exchange == queueinfo.No {
		return nil
	}
	if !f.way.bound {
		return []Finding{{
			Code: "bindings-unknown", Severity: Warning,
			Seen: fmt.Sprintf("what is bound to the dead-letter exchange %q cannot be seen over AMQP", exchange),
			Why:  "with nothing bound to it, rejected messages are dropped, and nobody is told",
			Fix:  "give the URL of the management API (Management, --management-url) to have it checked",
		}}
	}
	key, fixed := f.DeadLetterKey()
	reached := f.way.reached(key, fixed)
	switch {
	case len(reached) == 0:
		return []Finding{unbound(f, need, exchange)}
	case !slices.ContainsFunc(reached, func(b apiBinding) bool { return !b.leadsTo(f.Name) }):
		return nil // loopRule
	case !fixed && f.way.picks():
		return []Finding{{
			Code: "dead-letter-key-open", Severity: Warning,
			Seen: fmt.Sprintf("the dead-letter exchange %q is %s, and no dead-letter routing key is set: "+
				"only messages published with a key of %s find a queue", exchange, f.way.kind, keys(reached)),
			Why: "a rejected message with another key is dropped, and nobody is told",
			Fix: "set the dead-letter routing key, or bind the dead-letter queue to a fanout exchange",
		}}
	}
	return nil
}

// astrayRule judges a route that leads over other exchanges to no queue.
func astrayRule(f facts, need Need) []Finding {
	if !f.astray {
		return nil
	}
	exchange, _ := f.DeadLetterExchange()
	return []Finding{{
		Code: "dead-letter-unbound", Severity: lost(need),
		Seen: fmt.Sprintf("the dead-letter exchange %q leads to other exchanges, and those to no queue", exchange),
		Why:  "rejected messages are lost silently",
		Fix:  fmt.Sprintf("bind a dead-letter queue to the exchange %q", exchange),
	}}
}

func unbound(f facts, need Need, exchange string) Finding {
	x := Finding{
		Code: "dead-letter-unbound", Severity: lost(need),
		Seen: fmt.Sprintf("nothing is bound to the dead-letter exchange %q", exchange),
		Why:  "rejected messages are dropped, and nobody is told",
		Fix:  fmt.Sprintf("bind a dead-letter queue to the exchange %q", exchange),
	}
	if len(f.way.bindings) > 0 {
		key, _ := f.DeadLetterKey()
		x.Seen = fmt.Sprintf("the dead-letter exchange %q is %s and no binding is for the dead-letter routing key %q, but for %s",
			exchange, f.way.kind, key, keys(f.way.bindings))
		x.Fix = fmt.Sprintf("bind a dead-letter queue to the exchange %q with the key %q", exchange, key)
	}
	if f.way.alternate {
		x.Severity = Warning
		x.Seen += "; a policy or an alternate exchange may lead on"
		x.Fix += ", or make sure that the alternate exchange reaches one"
	}
	return x
}

// reached returns the bindings that a dead letter may take. Only where the
// exchange is direct or topic and the key is set can one be ruled out.
func (w way) reached(key string, fixed bool) []apiBinding {
	if w.kind != "direct" && w.kind != "topic" || !fixed {
		return w.bindings
	}
	var out []apiBinding
	for _, b := range w.bindings {
		if b.Key == key || w.kind == "topic" && topicMatches(b.Key, key) {
			out = append(out, b)
		}
	}
	return out
}

// picks says whether some keys find no binding.
func (w way) picks() bool {
	return w.kind == "direct" ||
		w.kind == "topic" && !slices.ContainsFunc(w.bindings, func(b apiBinding) bool { return b.Key == "#" })
}

func (b apiBinding) leadsTo(queue string) bool {
	return b.DestinationType == "queue" && b.Destination == queue
}

// keys lists a few routing keys.
func keys(bindings []apiBinding) string {
	const few = 5
	var names []string
	for _, b := range bindings {
		if name := fmt.Sprintf("%q", b.Key); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > few {
		names = append(names[:few], "…")
	}
	return strings.Join(names, ", ")
}

// deadLetterStrategyRule warns of a quorum queue that dead-letters at most
// once, as all classic queues do.
func deadLetterStrategyRule(f facts, need Need) []Finding {
	if _, set := f.DeadLetterExchange(); f.Type != queueinfo.Quorum || !set || need.AllowDrop {
		return nil
	}
	x := Finding{
		Code: codeAtMostOnce, Severity: Warning,
		Why: "a dead letter is lost if its queue cannot take it at that moment",
		Fix: fmt.Sprintf("declare the queue anew with %s=at-least-once and %s=reject-publish, or set both by policy",
			queueinfo.ArgStrategy, queueinfo.ArgOverflow),
	}
	switch {
	case f.DeadLetterStrategy() != "at-least-once":
		x.Seen = "the quorum queue dead-letters at most once"
	case f.Overflow() != "reject-publish":
		x.Seen = "the quorum queue asks for dead lettering at least once, but its overflow is not reject-publish, so it falls back to at most once"
	default:
		return nil
	}
	return []Finding{x}
}
