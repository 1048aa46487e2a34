package inspect

import (
	"fmt"

	"github.com/strikesmq/strikes/internal/broker"
)

// Rule judges one matter. It must not judge what the facts leave open as if it were known.
type Rule func(Facts, Need) []Finding

// All rules, in the order of their findings.
var All = []Rule{
	brokerRule,
	readableRule,
	lifetimeRule,
	membersRule,
	requeueRule,
	DeliveryLimitRule,
	orderRule,
	deadLetterRule,
	deadLetterRouteRule,
	astrayRule,
	loopRule,
	strategyRule,
	conflictRule,
	deadLetterQueueRule,
	limitsRule,
	foreignPolicyRule,
	consumersRule,
	consumerTimeoutRule,
	messagesRule,
	managementRule,
}

// RouteRules judge whether a dead letter would be lost, or come back.
var RouteRules = []Rule{deadLetterRule, deadLetterRouteRule, astrayRule, loopRule}

// Judge returns the findings of some rules.
func Judge(rules []Rule, f Facts, need Need) []Finding {
	var all []Finding
	for _, r := range rules {
		all = append(all, r(f, need)...)
	}
	return all
}

func brokerRule(f Facts, _ Need) []Finding {
	if f.Product == "RabbitMQ" && !f.Version.Before(3, 10) {
		return nil
	}
	return []Finding{Say("broker-unmeasured", Vars{"product": quoted(f.Product), "version": f.Version})}
}

// readableRule stands for all that cannot be judged if the queue cannot be read.
func readableRule(f Facts, _ Need) []Finding {
	switch {
	case f.Unread == "":
		return nil
	case f.Denied:
		return []Finding{Say(CodeDenied, Vars{"reason": f.Unread})}
	}
	return []Finding{Say(CodeUnknown, Vars{"reason": f.Unread})}
}

func lifetimeRule(f Facts, _ Need) []Finding {
	switch {
	case f.Exclusive:
		return []Finding{Say("exclusive", nil)}
	case f.Type == "":
		return nil
	}
	var out []Finding
	if f.AutoDelete {
		out = append(out, Say("auto-delete", nil))
	}
	if !f.Durable {
		out = append(out, Say("transient", nil))
	}
	return out
}

// limitsRule looks for what removes messages before their retries are over.
func limitsRule(f Facts, _ Need) []Finding {
	if f.Type != broker.Classic && f.Type != broker.Quorum {
		return nil
	}
	var out []Finding
	if ms, set := f.TTL(); set {
		out = append(out, Say("message-ttl", Vars{"ms": ms, "unset": unset(f.Queue, broker.ArgTTL)}))
	}
	if f.Limited() && f.DropsHead() {
		out = append(out, Say(CodeDropsHead, Vars{"length": f.LengthText()}))
	}
	if ms, set := f.Expires(); set {
		out = append(out, Say("expires", Vars{"ms": ms, "unset": unset(f.Queue, broker.ArgExpires)}))
	}
	return out
}

// orderRule looks for what would break strict order.
func orderRule(f Facts, need Need) []Finding {
	var out []Finding
	if kind, _ := f.Text(broker.ArgDelayedRetry); kind != "" && kind != "disabled" {
		x := Say("delayed-retry", Vars{"type": quoted(kind), "unset": unset(f.Queue, broker.ArgDelayedRetry)})
		if need.Ordered {
			x.Severity = Error
		}
		out = append(out, x)
	}
	if !need.Ordered || f.Type == "" {
		return out
	}
	if !f.SingleActive() {
		out = append(out, Say("not-single-active", nil))
	}
	if n, _ := f.Args[broker.ArgMaxPriority].(int64); n > 0 {
		out = append(out, Say("priorities", Vars{"n": n}))
	}
	return out
}

func managementRule(f Facts, need Need) []Finding {
	switch {
	case need.Closely && need.Management == "" && !f.Exclusive:
		return []Finding{Say("not-seen", nil)}
	case f.Trouble != "":
		return []Finding{Say("management-unreachable", Vars{"reason": f.Trouble})}
	}
	return nil
}

// unset says how to remove a setting of a queue.
func unset(q broker.Queue, arg string) string {
	if _, byArgument := q.Args[arg]; byArgument {
		return "declare the queue again without " + arg
	}
	return fmt.Sprintf("remove %s from %s", broker.PolicyKey(arg), policyText(q))
}

// policyText names the policy; a definition without a name is an operator's.
func policyText(q broker.Queue) string {
	if q.PolicyName == "" {
		return "the operator policy"
	}
	return fmt.Sprintf("policy %q", q.PolicyName)
}
