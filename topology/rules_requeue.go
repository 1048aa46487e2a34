package topology

import "fmt"

const (
	codeTail       = "requeue-to-tail"
	codeDiscard    = "requeue-discards"
	codeLimitLow   = "delivery-limit-low"
	codeLimitTight = "delivery-limit-tight"
)

// defaultLimit is that of a quorum queue without one, from 4.0 on.
const defaultLimit = 20

// margin: a message that kills its process each time runs MaxRetries+3 times,
// and the broker must not act before that.
const margin = 3

// roomy is how many returns more than its own a message should be allowed: those
// that its neighbors cost it.
const roomy = 100

// requeueRule judges where a message goes that is given back.
//
//	                        3.10      4.0         4.3
//	classic                 its place its place   its place
//	quorum, no limit        tail      head        head
//	quorum, limit N > 0     head      head        head
//	quorum, limit -1        discarded tail        head
func requeueRule(f facts, _ Need) []Finding {
	switch f.kind {
	case "", string(Classic):
		return nil
	case string(Quorum):
	default:
		return []Finding{{
			Code: "queue-type", Severity: Error,
			Seen: fmt.Sprintf("the queue is of type %q", f.kind),
			Why:  "a message cannot be given back to the head of such a queue and rejected from it",
			Fix:  "use a quorum or a classic queue",
		}}
	}
	if f.version == (version{}) {
		return []Finding{{
			Code: codeTail, Severity: Error,
			Seen: "the queue is a quorum queue, and the broker does not tell a version",
			Why:  "some versions put requeued messages at the tail",
			Fix:  "use a broker that tells its version, or a classic queue",
		}}
	}
	limit, set := f.deliveryLimit()
	old := f.version.before(4, 0)
	switch {
	case old && !set:
		return []Finding{refuseLimit(f, codeTail, "has no delivery limit",
			"such a queue puts requeued messages at the tail before RabbitMQ 4.0")}
	case old && limit < 0:
		return []Finding{refuseLimit(f, codeDiscard, fmt.Sprintf("has the delivery limit %d", limit),
			"before RabbitMQ 4.0 such a queue discards a message the first time it is returned")}
	case limit < 0 && f.version.before(4, 3):
		return []Finding{refuseLimit(f, codeTail, fmt.Sprintf("has the delivery limit %d", limit),
			"such a queue puts requeued messages at the tail before RabbitMQ 4.3")}
	}
	return nil
}

func refuseLimit(f facts, code, seen, why string) Finding {
	fix := fmt.Sprintf("set a delivery limit far above MaxRetries, such as %s=%d, or the same by policy",
		argDeliveryLimit, defaultDeliveryLimit)
	if _, byArgument := f.args[argDeliveryLimit]; byArgument {
		fix = fmt.Sprintf("declare the queue anew with %s=%d", argDeliveryLimit, defaultDeliveryLimit)
	}
	if !f.policyKnown {
		fix += "; if a policy sets it already, give the URL of the management API (Management) to show it"
	}
	return Finding{
		Code: code, Severity: Error,
		Seen: fmt.Sprintf("the quorum queue %s on RabbitMQ %s", seen, f.version),
		Why:  why, Fix: fix,
	}
}

// deliveryLimitRule judges whether the broker ends a message's life before its
// retries do. The limit N lets a message be delivered N+1 times.
func deliveryLimitRule(f facts, need Need) []Finding {
	if f.kind != string(Quorum) || f.version == (version{}) {
		return nil
	}
	limit, set := f.deliveryLimit()
	seen := fmt.Sprintf("the delivery limit is %d", limit)
	if !set {
		if f.version.before(4, 0) {
			return nil // requeueRule
		}
		limit, seen = defaultLimit, fmt.Sprintf("the delivery limit is not set, which makes it %d on RabbitMQ %s", defaultLimit, f.version)
	}
	if limit < 0 {
		return nil
	}
	retries := int64(max(need.MaxRetries, 0))
	fix := refuseLimit(f, "", "", "").Fix
	switch {
	case limit <= retries+margin:
		return []Finding{{
			Code: codeLimitLow, Severity: Error,
			Seen: fmt.Sprintf("%s, and MaxRetries is %d", seen, retries),
			Why: fmt.Sprintf("the broker dead-letters or drops a message before its retries are used up: "+
				"it may be returned MaxRetries+%d times", margin),
			Fix: fix,
		}}
	case limit < retries+roomy:
		return []Finding{{
			Code: codeLimitTight, Severity: Warning,
			Seen: seen,
			Why:  neighbors(f.version),
			Fix:  fix,
		}}
	}
	return nil
}

func neighbors(v version) string {
	if v.before(4, 3) {
		return "every return of a message counts, also when a consumer that had only prefetched it stops or dies: " +
			"healthy messages reach the limit and are dead-lettered, or dropped, by the broker"
	}
	return "a lost connection or closed channel counts for every message that was prefetched: " +
		"healthy messages reach the limit and are dead-lettered, or dropped, by the broker"
}
