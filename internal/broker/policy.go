package broker

import (
	"context"
	"maps"
	"regexp"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
)

// familiar keys apply to a queue of the type on every version that knows them. Measured on 3.10.8, 4.0.5 and 4.3.6;
// other keys may apply or not.
var familiar = map[string][]string{
	Classic: {
		"alternate-exchange", "consumer-timeout", "dead-letter-exchange", "dead-letter-routing-key", "expires", "ha-mode",
		"ha-params", "ha-sync-mode", "max-length", "max-length-bytes", "message-ttl", "overflow", "queue-mode",
		"queue-version",
	},
	Quorum: {
		"alternate-exchange", "consumer-timeout", "dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy",
		"delivery-limit", "expires", "max-in-memory-bytes", "max-in-memory-length", "max-length", "max-length-bytes",
		"message-ttl", "overflow", "queue-leader-locator", "queue-version",
	},
}

// foreign keys keep a policy from applying to a queue of the type. Measured on 3.10.8, 4.0.5 and 4.3.6; keys that only
// one of them knows are not here.
var foreign = map[string][]string{
	Classic: {
		"dead-letter-strategy", "delivery-limit", "initial-cluster-size", "max-age", "stream-max-segment-size-bytes",
		"target-group-size",
	},
	Quorum: {
		"ha-mode", "ha-params", "ha-promote-on-failure", "ha-promote-on-shutdown", "ha-sync-mode", "initial-cluster-size",
		"max-age", "queue-master-locator", "queue-mode", "stream-max-segment-size-bytes",
	},
}

// Policy is a policy as the API shows it.
type Policy struct {
	Name       string `json:"name"`
	Pattern    string `json:"pattern"`
	ApplyTo    string `json:"apply-to"`
	Priority   int    `json:"priority"`
	Definition Table  `json:"definition"`
}

// Keys returns the keys of the definition, sorted.
func (p Policy) Keys() []string { return slices.Sorted(maps.Keys(p.Definition)) }

// ForeignTo returns the keys for which RabbitMQ does not apply the policy to a queue of the type.
func (p Policy) ForeignTo(kind string) []string {
	return slices.DeleteFunc(p.Keys(), func(k string) bool { return !slices.Contains(foreign[kind], k) })
}

// Matches reports whether the policy is meant for the queue, and whether that is sure: RabbitMQ's patterns are PCRE and
// match bytes.
func (p Policy) Matches(queue, kind string) (matches, sure bool) {
	if !slices.Contains([]string{"queues", "all", kind + "_queues", kind + "s"}, p.ApplyTo) { // "streams", of streams
		return false, true
	}
	pattern, err := regexp.Compile(p.Pattern)
	return err == nil && pattern.MatchString(queue), err == nil && ascii(p.Pattern+queue)
}

// applies says whether RabbitMQ applies the policy to such a queue if none of higher priority applies.
func (p Policy) applies(queue, kind string) Answer {
	matches, sure := p.Matches(queue, kind)
	switch {
	case sure && !matches || len(p.ForeignTo(kind)) > 0:
		return No
	case !sure || slices.ContainsFunc(p.Keys(), func(k string) bool { return !slices.Contains(familiar[kind], k) }):
		return Unknown
	}
	return Yes
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] > 127 {
			return false
		}
	}
	return true
}

// candidates returns the policies of which one applies to the queue. The zero policy stands for none.
func candidates(all []Policy, queue, kind string) []Policy {
	var out []Policy
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b Policy) int { return b.Priority - a.Priority })
	var last *int // priority of one that surely applies: lower ones do not
	for _, p := range sorted {
		if last != nil && p.Priority < *last {
			return out
		}
		switch p.applies(queue, kind) {
		case Yes:
			last = &p.Priority
			out = append(out, p)
		case Unknown:
			out = append(out, p)
		case No:
		}
	}
	if last == nil {
		out = append(out, Policy{})
	}
	return out
}

// inForce picks the policy that applies: the only candidate, or the one whose name the API shows for the queue. The API
// shows a change up to 10 s late, the policies themselves immediately.
func inForce(all []Policy, q Queue, shown string) (Policy, bool) {
	some := candidates(all, q.Name, q.Type)
	if len(some) == 1 {
		return some[0], true
	}
	i := slices.IndexFunc(some, func(p Policy) bool { return p.Name == shown })
	if i < 0 || !q.PolicyKnown {
		return Policy{}, false
	}
	return some[i], true
}

// JoinPolicies merges a policy and an operator's policy as RabbitMQ does. Measured on 3.10.8, 4.0.5 and 4.3.6.
func JoinPolicies(user, operator amqp.Table) amqp.Table {
	out := Merge(user, operator)
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

// Policies are those of a virtual host.
type Policies struct{ User, Operator []Policy }

// Policies returns the policies of a virtual host, and those of operators.
func (c *API) Policies(ctx context.Context, vhost string) (p Policies, err error) {
	if p.User, err = fetch[[]Policy](ctx, c, "", "policies", vhost); err == nil {
		p.Operator, err = fetch[[]Policy](ctx, c, "", "operator-policies", vhost)
	}
	return p, err
}

// Apply sets the policies in force on a queue that the API has shown.
func (p Policies) Apply(q *Queue) {
	user, sure := inForce(p.User, *q, q.PolicyName)
	operator, alsoSure := inForce(p.Operator, *q, q.operatorName)
	q.PolicyName, q.Policy, q.PolicyKnown = "", nil, sure && alsoSure
	if q.PolicyKnown {
		q.PolicyName, q.OperatorPolicy = user.Name, amqp.Table(operator.Definition)
		q.Policy = JoinPolicies(amqp.Table(user.Definition), q.OperatorPolicy)
	}
}
