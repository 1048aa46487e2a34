package inspect

import (
	"fmt"
	"slices"

	"github.com/strikesmq/strikes/internal/broker"
)

// deadLetterQueueRule judges the queues that dead letters reach.
func deadLetterQueueRule(f Facts, need Need, report func(Finding)) {
	if f.Vitals == nil || need.AllowDrop {
		return
	}
	for _, q := range f.Vitals.Targets {
		about := func(x Finding) { report(x.about(q.Name)) }
		queueLifetime(q, about)
		queueTTL(f, q, about)
		queueLimited(f, q, about)
		queueReturns(q, about)
	}
}

func queueLifetime(q broker.Queue, report func(Finding)) {
	switch why := Temporary(q); {
	case len(why) > 0:
		report(Say("dead-letter-queue-temporary", Vars{"queue": quoted(q.Name), "why": why[0]}))
	case q.Type == broker.Classic:
		report(Say("dead-letter-queue-classic", Vars{"queue": quoted(q.Name), "limit": broker.DeadLetterLimit}))
	}
}

// Temporary returns why a queue may be deleted with its messages; empty: it stays, or it cannot be read.
func Temporary(q broker.Queue) (why []string) {
	if q.Exclusive {
		return []string{"is exclusive to one connection, and deleted with it"}
	}
	if q.AutoDelete {
		why = append(why, "is deleted when its last consumer leaves")
	}
	if expires, set := q.Expires(); set {
		why = append(why, fmt.Sprintf("is deleted after %d ms without a consumer", expires))
	}
	if q.Type != "" && !q.Durable {
		why = append(why, "is not durable: a restart of the broker deletes it")
	}
	return why
}

// queueTTL judges whether dead letters stay. A queue of a loop has a finding of its own.
func queueTTL(f Facts, q broker.Queue, report func(Finding)) {
	if ms, set := q.TTL(); set && q.Type != "" && !f.passes(q.Name) {
		report(Say("dead-letter-queue-ttl", Vars{"ms": ms, "queue": quoted(q.Name), "unset": unset(q, broker.ArgTTL)}))
	}
}

// passes reports whether dead letters come back to f through the queue of that name.
func (f Facts) passes(queue string) bool {
	return slices.ContainsFunc(f.Route.Loops, func(l Loop) bool { return slices.Contains(l.through, Node{Name: queue}) })
}

// queueLimited judges what happens to the dead letters of f once q is full.
func queueLimited(f Facts, q broker.Queue, report func(Finding)) {
	if !q.Limited() || q.Type == "" {
		return
	}
	severity, effect := fullEffect(f, q)
	if severity == Error && f.keptElsewhere(q) {
		severity = Warning
		effect += "; another dead-letter queue keeps them"
	}
	report(Say("dead-letter-queue-limited", Vars{"queue": quoted(q.Name), "length": q.LengthText(),
		"effect": effect}).as(severity))
}

// fullEffect says what a full dead-letter queue does. A quorum queue refuses only publishes with confirms, as
// at-least-once dead lettering makes them. Measured on 3.10.8 and 4.3.6.
func fullEffect(f Facts, q broker.Queue) (Severity, string) {
	_, on := q.DeadLetterExchange()
	switch {
	case q.DropsHead() && on:
		return Warning, "each new dead letter moves the oldest through the queue's own dead-letter exchange"
	case q.DropsHead():
		return Error, "each new dead letter drops the oldest silently"
	case q.Overflow() == "reject-publish-dlx" && on:
		return Warning, "further dead letters go through the queue's own dead-letter exchange"
	case f.KeepsDeadLetters():
		return Warning, fmt.Sprintf("further dead letters stay in the queue %q and count against its length", f.Name)
	case q.Type == broker.Quorum:
		return Warning, "it takes dead letters beyond its limit, and refuses publishers"
	}
	return Error, "further dead letters are lost silently: only a quorum queue with at-least-once dead lettering " +
		"keeps them"
}

// keptElsewhere reports whether every dead letter also reaches a queue other than q that keeps it.
func (f Facts) keptElsewhere(q broker.Queue) bool {
	for _, l := range f.Route.Landings {
		other := f.Known.Queues[l.Name]
		if other == nil || l.Depends || l.Behind || l.Name == q.Name || other.Type != broker.Classic &&
			other.Type != broker.Quorum {
			continue
		}
		if _, expires := other.TTL(); !other.Limited() && !expires {
			return true
		}
	}
	return false
}

// enoughReturns is the delivery limit from which on reading a dead-letter queue does no harm.
const enoughReturns = 1_000_000

// FewReturns says whether the broker deletes a dead letter that was read a few times, and its limit.
func FewReturns(q broker.Queue) (int64, bool) {
	limit, limited := q.ReturnLimit()
	if q.Requeue() == broker.PositionDiscarded {
		limit, limited = q.DeliveryLimit()
	}
	return limit, limited && limit < enoughReturns
}

// queueReturns judges how often a dead letter may be read.
func queueReturns(q broker.Queue, report func(Finding)) {
	limit, few := FewReturns(q)
	_, set := q.DeliveryLimit()
	if !few || q.Version == (broker.Version{}) || !set && !q.PolicyKnown {
		return
	}
	has := fmt.Sprintf("the delivery limit %d", limit)
	if !set {
		has = fmt.Sprintf("no delivery limit, which makes it %d on RabbitMQ %s", limit, q.Version)
	}
	entry := CodeDeadLetterLimit
	if _, byArgument := q.Args[broker.ArgDeliveryLimit]; byArgument {
		entry += "/argument"
	}
	report(Say(entry, Vars{"queue": quoted(q.Name), "limit": has, "want": broker.DeadLetterLimit}))
}
