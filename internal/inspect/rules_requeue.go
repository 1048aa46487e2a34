package inspect

import (
	"fmt"

	"github.com/strikesmq/strikes/internal/broker"
)

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
	entry := CodeLimitLow
	switch {
	case limit > retries+margin && f.Version.Before(4, 3):
		entry = CodeLimitTight + "/old"
	case limit > retries+margin:
		entry = CodeLimitTight
	}
	report(Say(entry, Vars{
		"limit": f.limitText(limit), "allowed": allowedText(limit, retries), "margin": margin,
		"raise": f.raiseLimit(need.SpareLimit()),
	}))
}

func allowedText(limit, retries int64) string {
	if limit <= margin {
		return "no retries"
	}
	return fmt.Sprintf("%d of %d retries", limit-margin-1, retries)
}

func (n Need) retries() int64 { return int64(max(n.MaxRetries, 0)) }

// SpareLimit is a delivery limit that no rule objects to.
func (n Need) SpareLimit() int64 {
	return max(broker.DefaultDeliveryLimit, n.retries()+spareReturns)
}

// limitText says which delivery limit is in force, and what sets it.
func (f Facts) limitText(limit int64) string {
	_, set := f.DeliveryLimit()
	arg, byArgument := f.Args[broker.ArgDeliveryLimit].(int64)
	switch {
	case !set:
		return fmt.Sprintf("the delivery limit is not set, which makes it %d on RabbitMQ %s", limit, f.Version)
	case byArgument && arg == limit:
		return fmt.Sprintf("the delivery limit is %d, by the queue's argument %s", limit, broker.ArgDeliveryLimit)
	}
	return fmt.Sprintf("the delivery limit is %d, by %s", limit, policyText(f.Queue))
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
		return fmt.Sprintf("set delivery-limit=%d in %s", want, policyText(f.Queue))
	}
	fix := fmt.Sprintf("set delivery-limit=%d by policy, or declare the queue again with %s=%d", want,
		broker.ArgDeliveryLimit, want)
	if !f.PolicyKnown {
		fix += "; if a policy sets it already, give the URL of the management API (Management), which shows it"
	}
	return fix
}
