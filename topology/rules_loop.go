package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

const (
	codeLoop      = "dead-letter-loop"
	codeDelayLoop = "dead-letter-delay-loop"
)

// loopRule judges whether dead letters come back to the queue. AllowDrop does not
// accept that: nothing is lost, but retries never end.
func loopRule(f facts, _ Need) []Finding {
	now, later := f.loops()
	var out []Finding
	if len(now) > 0 {
		out = append(out, Finding{
			Code: codeLoop, Severity: Error,
			Seen: f.loopText("come back to the queue", now),
			Why: "a message that always fails is retried without end: each return begins a new generation with all its attempts, " +
				"and may leave one more dead letter elsewhere",
			Fix: f.breakLoop(now[0]),
		})
	}
	if len(later) > 0 {
		out = append(out, Finding{
			Code: codeDelayLoop, Severity: Warning,
			Seen: f.loopText("come back to the queue after a delay", later),
			Why:  "a message that always fails is retried without end: each return begins a new generation with all its attempts",
			Fix: fmt.Sprintf("keep dead letters in a dead-letter queue without a TTL, and use the consumer's backoff to wait between attempts; "+
				"or remove the dead-letter exchange of the %s", later[0].lastQueue()),
		})
	}
	return out
}

// loops returns the loops that dead letters take immediately, or when a queue
// rejects; and those that wait for a TTL, which may be that of the queue itself
// if the loop passes another queue.
func (f facts) loops() (now, later []loop) {
	ttl, _ := f.TTL()
	for _, l := range f.route.loops {
		if l.delayed || ttl > 0 && l.lastQueue() != (node{}) {
			later = append(later, l)
		} else {
			now = append(now, l)
		}
	}
	return now, later
}

func (f facts) loopText(what string, loops []loop) string {
	var ways []string
	for _, l := range loops {
		if way := l.text(f); !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	text := fmt.Sprintf("dead letters %s through %s", what, ways[0])
	if len(ways) > 1 {
		text += fmt.Sprintf(", and in %s", count(len(ways)-1, "other way"))
	}
	if len(f.route.landings) == 0 && !f.route.open {
		text += "; they reach no other queue"
	}
	return text
}

// text names the exchanges and queues of the loop, in order.
func (l loop) text(f facts) string {
	var names []string
	for _, n := range l.through {
		name := n.String()
		if t := f.known.queues[n.name]; !n.exchange && t != nil {
			if ms, set := t.TTL(); set {
				name += fmt.Sprintf(" (TTL %d ms)", ms)
			}
		}
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if l.exchange() != "" && l.last.Key != "" {
		text += fmt.Sprintf(" with the routing key %q", l.last.Key)
	}
	return text
}

// exchange returns the last one before the queue.
func (l loop) exchange() string { return l.through[len(l.through)-1].name }

// lastQueue returns the last one before the queue itself; the zero node if there
// is none.
func (l loop) lastQueue() node {
	for _, n := range slices.Backward(l.through) {
		if !n.exchange {
			return n
		}
	}
	return node{}
}

// breakLoop says what to change so that dead letters do not come back. If messages
// are published to the exchange too, its binding must stay.
func (f facts) breakLoop(l loop) string {
	exchange := l.exchange()
	switch q := l.lastQueue(); {
	case q != node{}:
		return fmt.Sprintf("remove the dead-letter exchange of the %s, so that dead letters stay in it", q)
	case exchange == "":
		return fmt.Sprintf("set %s to the name of a dead-letter queue", queueinfo.ArgDeadLetterKey)
	case f.ownExchange(exchange):
		return fmt.Sprintf("remove the binding of the queue %q to its dead-letter exchange %q", f.Name, exchange)
	}
	own := Spec{Queue: f.Name}.withDefaults().DeadLetterExchange
	return fmt.Sprintf("give the queue a dead-letter exchange of its own, such as %q, bound to a dead-letter queue; "+
		"or, if only dead letters pass through the exchange %q, remove its binding to the queue", own, exchange)
}

// ownExchange reports whether the exchange, by its name, carries only dead letters
// of this queue.
func (f facts) ownExchange(exchange string) bool {
	return exchange == Spec{Queue: f.Name}.withDefaults().DeadLetterExchange
}

// unloop removes the bindings that lead back, if that breaks every loop, and first
// makes dead letters reach a queue. It returns "" if other messages may need them.
func (f facts) unloop() string {
	now, _ := f.loops()
	line := ""
	if len(f.route.landings) == 0 {
		exchange, _ := f.DeadLetterExchange()
		line = f.makeEnd(exchange, f.way.kind)
	}
	for i, l := range now {
		if !f.ownExchange(l.exchange()) || l.lastQueue() != (node{}) || l.last.Properties == "" {
			return ""
		}
		unbind := f.console.request("DELETE", nil, "bindings", f.VHost, "e", l.exchange(), "q", f.Name, l.last.Properties)
		if i == 0 && line == "" {
			line = unbind
		} else {
			line = both(line, unbind)
		}
	}
	return line
}

// loopByPolicy reports whether the queue needs another dead-letter exchange, and a
// policy can set it.
func (f facts) loopByPolicy() bool {
	_, byArgument := f.Args[queueinfo.ArgDeadLetterExchange].(string)
	exchange, _ := f.DeadLetterExchange()
	now, _ := f.loops()
	return !byArgument && !f.ownExchange(exchange) &&
		!slices.ContainsFunc(now, func(l loop) bool { return l.lastQueue() != (node{}) })
}
