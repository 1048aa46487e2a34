package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/broker"
)

// lost is the severity of a route that loses dead letters.
func lost(need Need) Severity {
	if need.AllowDrop {
		return Warning
	}
	return Error
}

// deadLetterRule judges whether the queue names a dead-letter exchange that exists.
func deadLetterRule(f Facts, need Need, report func(Finding)) {
	exchange, set := f.DeadLetterExchange()
	key, fixed := f.DeadLetterKey()
	switch {
	case f.Type == "": // readableRule
	case !set && need.AllowDrop:
	case !set && f.PolicyKnown:
		report(Say(CodeNoDeadLetterExchange, nil))
	case !set:
		report(Say(CodeDeadLetterUnproven, nil))
	case f.Exchange.Exists == broker.No:
		report(Say(CodeExchangeMissing, Vars{"exchange": quoted(exchange)}).as(lost(need)))
	case fixed && exchange == "" && key != f.Name && f.Known.Queues[key] == nil: // of the default exchange
		report(Say(CodeQueueMissing, Vars{"key": quoted(key)}).as(lost(need)))
	}
}

// deadLetterRouteRule judges whether the dead letters reach a queue over the dead-letter exchange.
func deadLetterRouteRule(f Facts, need Need, report func(Finding)) {
	exchange, _ := f.DeadLetterExchange()
	if exchange == "" || f.Exchange.Exists == broker.No {
		return
	}
	if !f.Exchange.Bound {
		if f.Trouble == "" { // else managementRule says why
			report(Say("bindings-unknown", Vars{"exchange": quoted(exchange)}))
		}
		return
	}
	key, _ := f.DeadLetterKey()
	v := Vars{"exchange": quoted(exchange), "kind": f.Exchange.Kind, "key": quoted(key), "keys": keys(f.Exchange.Bindings)}
	r := f.Route
	toExchange := func(b broker.Binding) bool { return b.DestinationType == "exchange" }
	toAll := func(l Landing) bool { return !l.Depends && !l.Behind }
	switch {
	case len(r.Landings)+len(r.Loops)+len(r.Unseen)+len(r.wanted) == 0 && !r.Open:
		entry := CodeUnbound
		switch {
		case slices.ContainsFunc(f.Exchange.Bindings, toExchange):
			entry += "/astray"
		case len(f.Exchange.Bindings) > 0:
			entry += "/key"
		}
		report(Say(entry, v).as(lost(need)))
	case r.picky == "" || len(r.Landings) == 0 || slices.ContainsFunc(r.Landings, toAll):
	case r.picky == exchange && f.Exchange.Kind == "headers":
		report(Say("dead-letter-key-open/headers", v))
	case r.picky == exchange:
		report(Say("dead-letter-key-open", v))
	case len(r.Unseen) == 0 && !r.Open:
		report(Say("dead-letter-key-open/behind", Vars{"exchange": quoted(r.picky)}))
	}
}

// keys lists a few routing keys.
func keys(bindings []broker.Binding) string {
	const few = 5
	var names []string
	for _, b := range bindings {
		if name := quoted(b.Key); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > few {
		names = append(names[:few], "…")
	}
	return strings.Join(names, ", ")
}

// awayRule judges whether the dead letters end in queues that do not answer. A queue that answers and takes them all
// keeps them. One that takes only some of them may take all that are ever rejected.
func awayRule(f Facts, need Need, report func(Finding)) {
	some, all := f.Route.Open || len(f.Route.Unseen) > 0, len(f.Route.Unseen) > 0
	for _, l := range f.Route.Landings {
		up := !l.Away && !l.Delay
		some, all = some || up, all || up && !l.Depends
	}
	for _, l := range f.Route.Landings {
		entry, severity := CodeDeadLetterNodeDown, lost(need)
		switch {
		case !l.Away:
			continue
		case f.KeepsDeadLetters():
			entry, severity = entry+"/kept", Warning
		case all || some && l.Depends:
			entry, severity = entry+"/some", Warning
		}
		report(Say(entry, Vars{"queue": quoted(l.Name)}).as(severity))
	}
}

// strategyRule warns of a quorum queue that dead-letters at most once, as all classic queues do.
func strategyRule(f Facts, need Need, report func(Finding)) {
	_, set := f.DeadLetterExchange()
	switch {
	case f.Type != broker.Quorum || !set || need.AllowDrop || f.KeepsDeadLetters():
	case f.DeadLetterStrategy() != "at-least-once":
		report(Say(CodeAtMostOnce, nil))
	default:
		report(Say(CodeAtMostOnce+"/overflow", nil))
	}
}

// foreignPolicyRule looks for policies that were meant for the queue and do not apply.
func foreignPolicyRule(f Facts, _ Need, report func(Finding)) {
	if !f.PolicyKnown {
		return
	}
	for _, p := range f.Policies.User {
		foreign := p.ForeignTo(f.Type)
		if matches, _ := p.Matches(f.Name, f.Type); len(foreign) == 0 || p.Name == f.PolicyName || !matches {
			continue
		}
		report(Say("policy-not-applied", Vars{
			"policy": quoted(p.Name), "type": f.Type, "foreign": strings.Join(foreign, ", "),
			"keys": strings.Join(p.Keys(), ", "),
		}).about(p.Name))
	}
}

// loopRule judges whether dead letters come back to the queue, and names the first such route. AllowDrop does not
// accept that: nothing is lost, but retries never end.
func loopRule(f Facts, _ Need, report func(Finding)) {
	now, later := f.sortLoops()
	if len(now) > 0 {
		report(Say(CodeLoop, Vars{"route": now[0].text(f), "break": f.breakLoop(now[0])}))
	}
	if len(later) > 0 {
		report(Say("dead-letter-delay-loop", Vars{"route": later[0].text(f), "last": later[0].LastQueue()}))
	}
}

// sortLoops returns two kinds of loops. Dead letters take those of now immediately, or when a queue rejects, and those
// of later after a TTL. That may be the TTL of the queue itself if the loop passes another queue.
func (f Facts) sortLoops() (now, later []Loop) {
	ttl, _ := f.TTL()
	for _, l := range f.Route.Loops {
		if l.delayed || ttl > 0 && l.LastQueue() != (Node{}) {
			later = append(later, l)
		} else {
			now = append(now, l)
		}
	}
	return now, later
}

// text names the exchanges and queues of the loop, in order.
func (l Loop) text(f Facts) string {
	var names []string
	for _, n := range l.through {
		name := n.String()
		if q := f.Known.Queues[n.Name]; !n.Exchange && q != nil {
			if ms, set := q.TTL(); set {
				name += fmt.Sprintf(" (TTL %d ms)", ms)
			}
		}
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if l.Exchange() != "" && l.Last.Key != "" {
		text += fmt.Sprintf(" with the routing key %q", l.Last.Key)
	}
	return text
}

// breakLoop returns the change after which dead letters do not come back. If messages are published to the exchange
// too, its binding must stay.
func (f Facts) breakLoop(l Loop) string {
	exchange := l.Exchange()
	switch q := l.LastQueue(); {
	case q != Node{}:
		return fmt.Sprintf("remove the dead-letter exchange of the %s, so that dead letters stay in it", q)
	case exchange == "":
		return fmt.Sprintf("set %s to the name of a dead-letter queue", broker.ArgDeadLetterKey)
	case f.OwnsExchange(exchange):
		return fmt.Sprintf("remove the binding of the queue %q to its dead-letter exchange %q", f.Name, exchange)
	}
	return fmt.Sprintf("give the queue a dead-letter exchange of its own, such as %q, bound to a dead-letter queue; "+
		"or, if only dead letters pass through the exchange %q, remove its binding to the queue",
		broker.ExchangeFor(f.Named()), exchange)
}
