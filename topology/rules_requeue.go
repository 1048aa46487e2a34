package topology

import (
	"fmt"

	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/internal/shell"
)

const (
	codeTail       = "requeue-to-tail"
	codeDiscard    = "requeue-discards"
	codeLimitLow   = "delivery-limit-low"
	codeLimitTight = "delivery-limit-tight"
)

// margin: a message that kills its process each time runs MaxRetries+3 times,
// and the broker must not act before that.
const margin = 3

// roomy is how many returns more than its own a message should be allowed: those
// that its neighbors cost it.
const roomy = 100

// requeueRule judges where a requeued message goes.
func requeueRule(f facts, need Need) []Finding {
	limit, _ := f.DeliveryLimit()
	switch f.Requeue() {
	case queueinfo.PositionOriginal, queueinfo.PositionHead:
		return nil
	case queueinfo.PositionDiscarded:
		return []Finding{refuseLimit(f, need, codeDiscard, fmt.Sprintf("has the delivery limit %d", limit),
			"before RabbitMQ 4.0 such a queue discards a message the first time it is returned")}
	case queueinfo.PositionTail:
		if f.Version.Before(4, 0) {
			return []Finding{refuseLimit(f, need, codeTail, "has no delivery limit",
				"such a queue puts requeued messages at the tail before RabbitMQ 4.0")}
		}
		return []Finding{refuseLimit(f, need, codeTail, fmt.Sprintf("has the delivery limit %d", limit),
			"such a queue puts requeued messages at the tail before RabbitMQ 4.3")}
	}
	switch f.Type {
	case "":
		return nil // readableRule
	case queueinfo.Quorum:
		return []Finding{{
			Code: codeTail, Severity: Error,
			Seen: "the queue is a quorum queue, and the broker does not tell a version",
			Why:  "some versions put requeued messages at the tail",
			Fix:  "use a broker that tells its version, or a classic queue",
		}}
	}
	return []Finding{{
		Code: "queue-type", Severity: Error,
		Seen: fmt.Sprintf("the queue is of type %q", f.Type),
		Why:  "a message cannot be given back to the head of such a queue and rejected from it",
		Fix:  "use a quorum or a classic queue",
	}}
}

func refuseLimit(f facts, need Need, code, seen, why string) Finding {
	return Finding{
		Code: code, Severity: Error,
		Seen: fmt.Sprintf("the quorum queue %s on RabbitMQ %s", seen, f.Version),
		Why:  why, Fix: f.raiseLimit(need.roomyLimit()),
	}
}

// deliveryLimitRule judges whether the broker ends a message's life before its
// retries do. The limit N lets a message be delivered N+1 times.
func deliveryLimitRule(f facts, need Need) []Finding {
	if f.Type != queueinfo.Quorum || f.Version == (queueinfo.Version{}) {
		return nil
	}
	limit, limited := f.ReturnLimit()
	if !limited {
		return nil // requeueRule, if that is bad
	}
	x := Finding{Seen: f.limitText(), Fix: f.raiseLimit(need.roomyLimit())}
	switch retries := need.retries(); {
	case limit >= retries+roomy:
		return nil
	case limit > retries+margin:
		x.Code, x.Severity, x.Why = codeLimitTight, Warning, neighbors(f.Version)
	default:
		x.Code, x.Severity = codeLimitLow, Error
		x.Seen += ", and leaves " + roomText(limit, retries)
		x.Why = fmt.Sprintf("the broker dead-letters or drops a message before its retries are used up: "+
			"one that kills its process is returned %d times more often than it is retried", margin)
	}
	return []Finding{x}
}

func roomText(limit, retries int64) string {
	if limit <= margin {
		return "no room for retries"
	}
	return fmt.Sprintf("room for %d of %d retries", limit-margin-1, retries)
}

func (n Need) retries() int64 { return int64(max(n.MaxRetries, 0)) }

// roomyLimit is a delivery limit that no rule finds fault with.
func (n Need) roomyLimit() int64 { return max(queueinfo.DefaultDeliveryLimit, n.retries()+roomy) }

// limitText says which delivery limit is in force, and by what.
func (f facts) limitText() string {
	limit, set := f.DeliveryLimit()
	arg, byArgument := f.Args[queueinfo.ArgDeliveryLimit].(int64)
	switch {
	case !set:
		return fmt.Sprintf("the delivery limit is not set, which makes it %d on RabbitMQ %s", queueinfo.BrokerDeliveryLimit, f.Version)
	case byArgument && arg == limit:
		return fmt.Sprintf("the delivery limit is %d, by the queue's argument %s", limit, queueinfo.ArgDeliveryLimit)
	}
	return fmt.Sprintf("the delivery limit is %d, by %s", limit, f.policyText())
}

// limitFixed says whether the argument keeps a policy from raising the delivery
// limit to want; deliveryLimit says how the two go together.
func (f facts) limitFixed(want int64) bool {
	arg, byArgument := f.Args[queueinfo.ArgDeliveryLimit].(int64)
	return byArgument && arg < want && (arg >= 0 || f.Version.Before(4, 0))
}

// raiseLimit says how to raise the delivery limit to want.
func (f facts) raiseLimit(want int64) string {
	if f.limitFixed(want) {
		single := ""
		if on, _ := f.Args[queueinfo.ArgSingleActive].(bool); on {
			single = " --single-active-consumer"
		}
		return fmt.Sprintf("drain and delete the queue, then declare it anew with %s=%d (strikes declare --delivery-limit %d%s %s): "+
			"an argument cannot be changed, and a policy only lowers it", queueinfo.ArgDeliveryLimit, want, want, single, shell.Operands(f.Name))
	}
	if _, byPolicy := f.Policy["delivery-limit"]; byPolicy {
		return fmt.Sprintf("set delivery-limit=%d in %s", want, f.policyText())
	}
	fix := fmt.Sprintf("set delivery-limit=%d by policy, or declare the queue anew with %s=%d", want, queueinfo.ArgDeliveryLimit, want)
	if !f.PolicyKnown {
		fix += "; if a policy sets it already, give the URL of the management API (Management, --management-url) to show it"
	}
	return fix
}

func neighbors(v queueinfo.Version) string {
	if v.Before(4, 3) {
		return "every return of a message counts, also when a consumer that had only prefetched it stops or dies: " +
			"healthy messages reach the limit and are dead-lettered, or dropped, by the broker"
	}
	return "a lost connection or closed channel counts for every message that was prefetched: " +
		"healthy messages reach the limit and are dead-lettered, or dropped, by the broker"
}
