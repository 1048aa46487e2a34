package topology

import (
	"regexp"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// familiar keys apply to a queue of the type on every version that knows them.
// Measured on 3.10.8, 4.0.5 and 4.3.6; other keys may apply or not.
var familiar = map[string][]string{
	queueinfo.Classic: {
		"alternate-exchange", "consumer-timeout", "dead-letter-exchange", "dead-letter-routing-key", "expires", "ha-mode",
		"ha-params", "ha-sync-mode", "max-length", "max-length-bytes", "message-ttl", "overflow", "queue-mode", "queue-version",
	},
	queueinfo.Quorum: {
		"alternate-exchange", "consumer-timeout", "dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy",
		"delivery-limit", "expires", "max-in-memory-bytes", "max-in-memory-length", "max-length", "max-length-bytes",
		"message-ttl", "overflow", "queue-leader-locator", "queue-version",
	},
}

// applies says whether RabbitMQ applies the policy to such a queue if none of
// higher priority applies; unknown if only RabbitMQ can tell.
func (p apiPolicy) applies(queue, kind string) queueinfo.Answer {
	switch p.ApplyTo {
	case "queues", "all", kind + "_queues":
	default:
		return queueinfo.No
	}
	matches := queueinfo.Unknown
	if pattern, err := regexp.Compile(p.Pattern); err == nil && ascii(p.Pattern+queue) {
		matches = queueinfo.No // RabbitMQ's patterns are PCRE, and match bytes
		if pattern.MatchString(queue) {
			matches = queueinfo.Yes
		}
	}
	switch {
	case matches == queueinfo.No || len(p.foreignTo(kind)) > 0:
		return queueinfo.No
	case slices.ContainsFunc(p.keys(), func(k string) bool { return !slices.Contains(familiar[kind], k) }):
		return queueinfo.Unknown
	}
	return matches
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] > 127 {
			return false
		}
	}
	return true
}

// candidates returns the policies that may apply to the queue: one does. The zero
// policy stands for none.
func candidates(all []apiPolicy, queue, kind string) []apiPolicy {
	var out []apiPolicy
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b apiPolicy) int { return b.Priority - a.Priority })
	var last *int // priority of one that surely applies: lower ones do not
	for _, p := range sorted {
		if last != nil && p.Priority < *last {
			return out
		}
		switch p.applies(queue, kind) {
		case queueinfo.Yes:
			last = &p.Priority
			out = append(out, p)
		case queueinfo.Unknown:
			out = append(out, p)
		case queueinfo.No:
		}
	}
	if last == nil {
		out = append(out, apiPolicy{})
	}
	return out
}

// inForce picks the policy that applies: the only candidate, or the one whose
// name the API shows for the queue. The API shows a change up to 10 s late, the
// policies themselves immediately.
func inForce(all []apiPolicy, queue, kind, shown string, asShown bool) (apiPolicy, bool) {
	some := candidates(all, queue, kind)
	if len(some) == 1 {
		return some[0], true
	}
	i := slices.IndexFunc(some, func(p apiPolicy) bool { return p.Name == shown })
	if i < 0 || !asShown {
		return apiPolicy{}, false
	}
	return some[i], true
}

// joined merges a policy and an operator's policy as RabbitMQ does. Measured on
// 3.10.8, 4.0.5 and 4.3.6.
func joined(user, operator amqp.Table) amqp.Table {
	out := queueinfo.Merge(user, operator)
	for k := range operator {
		u, byUser := user[k].(int64)
		o, byOperator := operator[k].(int64)
		switch {
		case !byUser || !byOperator:
		case k == "delivery-limit" && min(u, o) < 0:
			out[k] = max(u, o)
		default:
			out[k] = min(u, o)
		}
	}
	return out
}

// policySet is the policies of a virtual host. The zero value says that they
// are not known.
type policySet struct {
	known          bool
	user, operator []apiPolicy
}

// apply adds the policies of the queue q to its facts.
func (p policySet) apply(q apiQueue, f *facts) {
	shown := q.Policy != nil
	user, sure := inForce(p.user, f.Name, q.Type, q.PolicyName, shown)
	operator, alsoSure := inForce(p.operator, f.Name, q.Type, q.OperatorPolicy, shown)
	f.policies = p
	if f.PolicyKnown = sure && alsoSure; f.PolicyKnown {
		f.PolicyName, f.operator = user.Name, operator.Definition
		f.Policy = joined(user.Definition, operator.Definition)
	}
}
