package inspect

import (
	"fmt"
	"math"
	"slices"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
)

// deadLetterQueueRule judges the queues that dead letters reach.
func deadLetterQueueRule(f Facts, need Need, report func(Finding)) {
	if need.AllowDrop {
		return
	}
	for _, q := range f.Vitals.Targets {
		about := func(x Finding) { report(x.about(q.Name)) }
		switch why := Temporary(q); {
		case len(why) > 0:
			about(Say("dead-letter-queue-temporary", Vars{"queue": quoted(q.Name), "why": why[0]}))
		case q.Type == broker.Stream && !f.keptElsewhere(q):
			about(Say("dead-letter-queue-stream", Vars{"queue": quoted(q.Name)}))
		case q.Type == broker.Classic:
			about(Say("dead-letter-queue-classic", Vars{"queue": quoted(q.Name), "limit": broker.DeadLetterLimit}))
		}
		back := func(l Loop) bool { return slices.Contains(l.through, Node{Name: q.Name}) } // has a finding of its own
		if ms, set := q.TTL(); set && q.Type != "" && !slices.ContainsFunc(f.Route.Loops, back) {
			about(Say("dead-letter-queue-ttl", Vars{"ms": ms, "queue": quoted(q.Name), "unset": unset(q, broker.ArgTTL)}))
		}
		queueReturns(q, about)
	}
}

// limitedRule judges how many dead letters fit in their queue. A consumer starts all the same, and warns if a full
// queue loses them.
func limitedRule(f Facts, need Need, report func(Finding)) {
	targets := f.targets()
	if f.Vitals != nil {
		targets = f.Vitals.Targets
	}
	for _, q := range targets {
		entry, kept := "dead-letter-queue-limited", f.keptWhenFull(q) || f.keptElsewhere(q)
		if need.AllowDrop || !q.Limited() || q.Type == "" || kept && f.Vitals == nil {
			continue
		}
		if kept {
			entry += "/kept"
		}
		x := Say(entry, Vars{"queue": quoted(q.Name), "length": q.LengthText()}).about(q.Name)
		if f.Vitals == nil {
			x.Severity = Warning
		}
		report(x)
	}
}

// Temporary returns why a queue may be deleted with its messages; empty: it stays, or it cannot be read.
func Temporary(q broker.Queue) (why []string) {
	if q.Exclusive {
		return []string{"is exclusive to one connection, and deleted with it"}
	}
	if why = Unconsumed(q); q.Type != "" && !q.Durable {
		why = append(why, "is not durable: a restart of the broker deletes it")
	}
	return why
}

// Unconsumed returns why the broker deletes a queue that its consumers leave; empty: it does not.
func Unconsumed(q broker.Queue) (why []string) {
	if q.AutoDelete {
		why = append(why, "is auto-delete: the broker deletes it with its messages once its last consumer stops")
	}
	if ms, set := q.Expires(); set {
		why = append(why, fmt.Sprintf("expires: the broker deletes it with its messages after %d ms without a consumer", ms))
	}
	return why
}

// keptWhenFull reports whether no dead letter is lost when a dead-letter queue is full. A queue that dead-letters
// passes them on. Another one may refuse them: they stay in the queue of f if that dead-letters at least once. A full
// quorum queue refuses only publishes with confirms, as at-least-once dead lettering makes them, and takes all others.
// Measured on 3.10.8 and 4.3.6.
func (f Facts) keptWhenFull(q broker.Queue) bool {
	_, on := q.DeadLetterExchange()
	if q.DropsHead() || q.Overflow() == "reject-publish-dlx" && on {
		return on
	}
	return f.KeepsDeadLetters() || q.Type == broker.Quorum
}

// keptElsewhere reports whether every dead letter also reaches a queue other than q that keeps it.
func (f Facts) keptElsewhere(q broker.Queue) bool {
	for _, l := range f.Route.Landings {
		other := f.Known.Queues[l.Name]
		if other == nil || l.Depends || l.Behind || l.Away || l.Name == q.Name || other.Type != broker.Classic &&
			other.Type != broker.Quorum {
			continue
		}
		if _, expires := other.TTL(); !other.Limited() && !expires {
			return true
		}
	}
	return false
}

// FewReturns says whether the broker deletes a dead letter that was read a few times, and its limit.
func FewReturns(q broker.Queue) (int64, bool) {
	limit, limited := q.ReturnLimit()
	if q.Requeue() == broker.PositionDiscarded {
		limit, limited = q.DeliveryLimit()
	}
	return limit, limited && limit < broker.EnoughReturns
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

// margin: a message that kills its process each time runs MaxRetries+3 times, and the broker must not act before that.
const margin = 3

// spareReturns is how many returns beyond its own retries a message should be allowed: those that its neighbors cost
// it.
const spareReturns = 100

// requeueRule judges where a requeued message goes.
func requeueRule(f Facts, need Need, report func(Finding)) {
	position := f.Requeue()
	switch {
	case position == broker.PositionOriginal, position == broker.PositionHead, f.Type == "":
		return
	case f.Type != broker.Quorum:
		report(Say("queue-type", Vars{"type": quoted(f.Type)}))
		return
	case position == broker.PositionUnknown:
		report(Say(CodeTail+"/version", nil))
		return
	}
	code, until, has := CodeTail, "4.3", "has no delivery limit"
	if f.Version.Before(4, 0) {
		until = "4.0"
	}
	if limit, set := f.DeliveryLimit(); set {
		has = fmt.Sprintf("has the delivery limit %d", limit)
	}
	if position == broker.PositionDiscarded {
		code = CodeDiscard
	}
	report(Say(code, Vars{"limit": has, "version": f.Version, "until": until,
		"raise": f.raiseLimit(need.SpareLimit())}))
}

// DeliveryLimitRule judges whether the broker dead-letters a message before its retries are used up. The limit N lets a
// message be delivered N+1 times.
func DeliveryLimitRule(f Facts, need Need, report func(Finding)) {
	limit, limited := f.ReturnLimit()
	retries := need.retries()
	if !limited || f.Version == (broker.Version{}) || limit >= retries+spareReturns {
		return // requeueRule judges a queue without a limit
	}
	entry, allowed := CodeLimitLow, "no retries"
	if limit > margin {
		allowed = fmt.Sprintf("%d of %s", limit-margin-1, printable.Plural(int(retries), "retry"))
	}
	switch {
	case limit > retries+margin && f.Version.Before(4, 3):
		entry = CodeLimitTight + "/old"
	case limit > retries+margin:
		entry = CodeLimitTight
	}
	report(Say(entry, Vars{
		"limit": f.limitText(limit), "allowed": allowed, "margin": margin,
		"raise": f.raiseLimit(need.SpareLimit()),
	}))
}

// retries is MaxRetries, or a number so large that no delivery limit suffices, and no sum of the rules overflows.
func (n Need) retries() int64 { return int64(min(max(n.MaxRetries, 0), math.MaxInt32)) }

// SpareLimit is a delivery limit that no rule objects to.
func (n Need) SpareLimit() int64 {
	return max(broker.DefaultDeliveryLimit, n.retries()+spareReturns)
}

// limitText says which delivery limit is in force, and by which argument or policy.
func (f Facts) limitText(limit int64) string {
	_, set := f.DeliveryLimit()
	arg, byArgument := f.Args[broker.ArgDeliveryLimit].(int64)
	switch {
	case !set:
		return fmt.Sprintf("the delivery limit is not set, which makes it %d on RabbitMQ %s", limit, f.Version)
	case byArgument && arg == limit:
		return fmt.Sprintf("the delivery limit is %d, by the queue's argument %s", limit, broker.ArgDeliveryLimit)
	}
	return fmt.Sprintf("the delivery limit is %d, by %s", limit, policyText(f.Queue, "delivery-limit"))
}

// LimitFixed reports whether the argument keeps a policy from raising the delivery limit to want.
func (f Facts) LimitFixed(want int64) bool {
	arg, byArgument := f.Args[broker.ArgDeliveryLimit].(int64)
	return byArgument && arg < want && (arg >= 0 || f.Version.Before(4, 0))
}

// raiseLimit says how to raise the delivery limit to want.
func (f Facts) raiseLimit(want int64) string {
	if f.LimitFixed(want) {
		return fmt.Sprintf("drain and delete the queue, then declare it again with %s=%d and its other arguments: "+
			"an argument cannot be changed, and a policy only lowers it", broker.ArgDeliveryLimit, want)
	}
	if _, byPolicy := f.Policy["delivery-limit"]; byPolicy {
		return fmt.Sprintf("set delivery-limit=%d in %s", want, policyText(f.Queue, "delivery-limit"))
	}
	fix := fmt.Sprintf("set delivery-limit=%d by policy, or declare the queue again with %s=%d", want,
		broker.ArgDeliveryLimit, want)
	if !f.PolicyKnown {
		fix += "; if a policy sets it already, give the URL of the management API (Check.Management), which shows it"
	}
	return fix
}
