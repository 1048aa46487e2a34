package inspect

import (
	"fmt"

	"github.com/strikesmq/strikes/internal/broker"
)

// Rule judges one matter. It must not judge what the facts leave open as if it were known.
type Rule func(f Facts, need Need, report func(Finding))

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
func Judge(rules []Rule, f Facts, need Need) (all []Finding) {
	for _, r := range rules {
		r(f, need, func(x Finding) { all = append(all, x) })
	}
	return all
}

func brokerRule(f Facts, _ Need, report func(Finding)) {
	if f.Product != "RabbitMQ" || f.Version.Before(3, 10) {
		report(Say("broker-unmeasured", Vars{"product": quoted(f.Product), "version": f.Version}))
	}
}

// readableRule stands for all that cannot be judged if the queue cannot be read.
func readableRule(f Facts, _ Need, report func(Finding)) {
	switch {
	case f.Unread == "":
	case f.Denied:
		report(Say(CodeDenied, Vars{"reason": f.Unread}))
	default:
		report(Say(CodeUnknown, Vars{"reason": f.Unread}))
	}
}

func lifetimeRule(f Facts, _ Need, report func(Finding)) {
	if f.Exclusive {
		report(Say("exclusive", nil))
		return
	}
	if f.AutoDelete {
		report(Say("auto-delete", nil))
	}
	if f.Type != "" && !f.Durable {
		report(Say("transient", nil))
	}
}

// limitsRule looks for what removes messages before their retries are over.
func limitsRule(f Facts, _ Need, report func(Finding)) {
	if f.Type != broker.Classic && f.Type != broker.Quorum {
		return
	}
	if ms, set := f.TTL(); set {
		report(Say("message-ttl", Vars{"ms": ms, "unset": unset(f.Queue, broker.ArgTTL)}))
	}
	if f.Limited() && f.DropsHead() {
		report(Say(CodeDropsHead, Vars{"length": f.LengthText()}))
	}
	if ms, set := f.Expires(); set {
		report(Say("expires", Vars{"ms": ms, "unset": unset(f.Queue, broker.ArgExpires)}))
	}
}

// orderRule looks for what would break strict order.
func orderRule(f Facts, need Need, report func(Finding)) {
	if kind, _ := f.Text(broker.ArgDelayedRetry); kind != "" && kind != "disabled" {
		x := Say("delayed-retry", Vars{"type": quoted(kind), "unset": unset(f.Queue, broker.ArgDelayedRetry)})
		if need.Ordered {
			x.Severity = Error
		}
		report(x)
	}
	if !need.Ordered || f.Type == "" {
		return
	}
	if !f.SingleActive() {
		report(Say("not-single-active", nil))
	}
	if n, _ := f.Args[broker.ArgMaxPriority].(int64); n > 0 {
		report(Say("priorities", Vars{"n": n}))
	}
}

func managementRule(f Facts, need Need, report func(Finding)) {
	switch {
	case need.Closely && need.Management == "" && !f.Exclusive:
		report(Say("not-seen", nil))
	case f.Trouble != "":
		report(Say("management-unreachable", Vars{"reason": f.Trouble}))
	}
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
