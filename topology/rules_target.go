package topology

import (
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// target is a queue that dead letters reach.
type target struct{ facts }

// passes reports whether dead letters come back to f through the queue of that name.
func (f facts) passes(queue string) bool {
	return slices.ContainsFunc(f.route.loops, func(l loop) bool { return slices.Contains(l.through, node{name: queue}) })
}

// enoughLooks is the delivery limit from which on a dead-letter queue may be
// looked into without a thought.
const enoughLooks = 1000

// targetRule judges the queues at the end of the dead letters' way.
func targetRule(f facts, need Need) []Finding {
	if f.vitals == nil || need.AllowDrop {
		return nil
	}
	var out []Finding
	for _, t := range f.vitals.targets {
		t.transit = f.passes(t.Name)
		for _, judge := range []func() []Finding{t.lifetime, t.room, func() []Finding { return t.limited(f) }, t.looks} {
			out = append(out, judge()...)
		}
	}
	return out
}

func (t target) lifetime() []Finding {
	var why string
	switch expires, set := t.Expires(); {
	case t.Exclusive:
		why = "is exclusive to one connection, and deleted with it"
	case t.Type == "":
		return nil
	case t.AutoDelete:
		why = "is deleted when its last consumer leaves"
	case set:
		why = fmt.Sprintf("is deleted after %d ms without a consumer", expires)
	case !t.Durable:
		why = "is not durable: a restart of the broker deletes it"
	case t.Type == queueinfo.Classic:
		return []Finding{{
			Code: "dead-letter-queue-classic", Severity: Warning,
			Seen: fmt.Sprintf("the dead-letter queue %q is a classic queue", t.Name),
			Why:  "a classic queue keeps in memory what nobody waits to be confirmed, as dead letters are: a kill of the broker can take thousands",
			Fix: fmt.Sprintf("drain and delete it, then declare it anew with %s=quorum and %s=%d",
				queueinfo.ArgType, queueinfo.ArgDeliveryLimit, queueinfo.DeadLetterLimit),
		}}
	default:
		return nil
	}
	return []Finding{{
		Code: "dead-letter-queue-temporary", Severity: Warning,
		Seen: fmt.Sprintf("the dead-letter queue %q %s", t.Name, why),
		Why:  "all dead letters go with it, and later ones are dropped",
		Fix:  "declare it anew, durable and without exclusive, auto-delete and x-expires",
	}}
}

// room judges whether dead letters stay.
func (t target) room() []Finding {
	if t.Type == "" {
		return nil
	}
	var out []Finding
	if ms, set := t.TTL(); set && !t.transit {
		out = append(out, Finding{
			Code: "dead-letter-queue-ttl", Severity: Warning,
			Seen: fmt.Sprintf("dead letters expire after %d ms in the queue %q", ms, t.Name),
			Why:  "then they are dropped, or go on to where it dead-letters to, which may be back to be retried anew",
			Fix:  t.unset("x-message-ttl", "message-ttl"),
		})
	}
	return out
}

// limited judges what becomes of the dead letters of f once t is full. A quorum
// queue refuses only publishes with confirms, as at-least-once dead lettering
// makes them. Measured on 3.10.8 and 4.3.6.
func (t target) limited(f facts) []Finding {
	if !t.Limited() || t.Type == "" {
		return nil
	}
	_, on := t.DeadLetterExchange()
	severity, why := Error, "once it is full, further dead letters are lost silently: only a quorum queue with at-least-once dead lettering keeps them"
	switch {
	case t.DropsHead() && on:
		severity, why = Warning, "once it is full, each new dead letter moves the oldest through the queue's own dead-letter exchange"
	case t.DropsHead():
		why = "once it is full, each new dead letter drops the oldest silently"
	case t.Overflow() == "reject-publish-dlx" && on:
		severity, why = Warning, "once it is full, further dead letters go through the queue's own dead-letter exchange"
	case f.KeepsDeadLetters():
		severity, why = Warning, fmt.Sprintf("once it is full, further dead letters stay in the queue %q and count against its length", f.Name)
	case t.Type == queueinfo.Quorum:
		severity, why = Warning, "the queue takes these dead letters beyond its limit, and refuses publishers meanwhile"
	}
	if severity == Error && f.keptElsewhere(t) {
		severity = Warning
		why += "; another dead-letter queue keeps them"
	}
	return []Finding{{
		Code: "dead-letter-queue-limited", Severity: severity,
		Seen: fmt.Sprintf("the dead-letter queue %q holds at most %s", t.Name, t.LengthText()),
		Why:  why,
		Fix:  "declare it anew without x-max-length and x-max-length-bytes, and take max-length and max-length-bytes out of its policy",
	}}
}

// keptElsewhere reports whether every dead letter also reaches a queue other than
// t that keeps it.
func (f facts) keptElsewhere(t target) bool {
	for _, l := range f.route.landings {
		other := f.known.queues[l.queue]
		if other == nil || !l.sure || l.behind || l.queue == t.Name || other.Type != queueinfo.Classic && other.Type != queueinfo.Quorum {
			continue
		}
		limited := other.Limited()
		_, expires := other.TTL()
		if !limited && !expires {
			return true
		}
	}
	return false
}

// looks judges how often a dead letter may be looked at.
func (t target) looks() []Finding {
	if t.Type != queueinfo.Quorum || t.Version == (queueinfo.Version{}) {
		return nil
	}
	limit, set := t.DeliveryLimit()
	old := t.Version.Before(4, 0)
	seen := fmt.Sprintf("has the delivery limit %d", limit)
	switch {
	case set && limit >= enoughLooks, set && limit < 0 && !old, !set && old:
		return nil
	case !set && !t.PolicyKnown:
		return nil
	case !set:
		seen = fmt.Sprintf("has no delivery limit, which makes it %d on RabbitMQ %s", queueinfo.BrokerDeliveryLimit, t.Version)
	}
	fix := fmt.Sprintf("set the delivery limit %d by policy", queueinfo.DeadLetterLimit)
	command := t.setPolicy(amqp.Table{"delivery-limit": queueinfo.DeadLetterLimit})
	if _, byArgument := t.Args[queueinfo.ArgDeliveryLimit]; byArgument {
		fix, command = fmt.Sprintf("declare it anew with %s=%d", queueinfo.ArgDeliveryLimit, queueinfo.DeadLetterLimit), ""
	}
	return []Finding{{
		Code: "dead-letter-queue-looks", Severity: Warning,
		Seen: fmt.Sprintf("the dead-letter queue %q %s", t.Name, seen),
		Why:  "every look at a dead letter that puts it back counts, and at the limit RabbitMQ deletes it",
		Fix:  fix, Command: command,
	}}
}
