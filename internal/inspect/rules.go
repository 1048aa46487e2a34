package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
)

// Rule judges one matter. It must not judge an unknown fact as if it were known.
type Rule func(f Facts, need Need, report func(Finding))

// All rules, in the order of their findings.
var All = []Rule{
	brokerRule,
	readableRule,
	lifetimeRule,
	requeueRule,
	DeliveryLimitRule,
	orderRule,
	deadLetterRule,
	deadLetterRouteRule,
	awayRule,
	loopRule,
	strategyRule,
	closely(deadLetterQueueRule),
	limitedRule,
	limitsRule,
	closely(foreignPolicyRule),
	unattendedRule,
	closely(consumersRule),
	closely(messagesRule),
	managementRule,
}

// RouteRules judge whether a dead letter would be lost, or come back.
var RouteRules = []Rule{deadLetterRule, deadLetterRouteRule, awayRule, loopRule}

// closely returns a rule that judges a queue only after a close look.
func closely(r Rule) Rule {
	return func(f Facts, need Need, report func(Finding)) {
		if f.Vitals != nil {
			r(f, need, report)
		}
	}
}

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
	case f.Away:
		report(Say(CodeNodeDown, Vars{"queue": quoted(f.Name)}))
	case f.Unread == "":
	case f.Denied:
		report(Say(CodeDenied, Vars{"reason": f.Unread}))
	default:
		report(Say(CodeUnknown, Vars{"reason": f.Unread}))
	}
}

func lifetimeRule(f Facts, need Need, report func(Finding)) {
	if f.Exclusive {
		report(Say("exclusive", nil))
		return
	}
	if f.AutoDelete {
		report(Say("auto-delete"+need.held(), nil))
	}
	if f.Type != "" && !f.Durable {
		report(Say("transient", nil))
	}
}

// held is the variant of a finding about a queue that the broker deletes without consumers.
func (n Need) held() string {
	if n.HoldQueue {
		return "/held"
	}
	return ""
}

// limitsRule looks for limits that remove messages before their retries are over.
func limitsRule(f Facts, need Need, report func(Finding)) {
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
		report(Say("expires"+need.held(), Vars{"ms": ms, "unset": unset(f.Queue, broker.ArgExpires)}))
	}
}

// orderRule looks for settings that would break strict order.
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
	key := broker.PolicyKey(arg)
	return fmt.Sprintf("remove %s from %s", key, policyText(q, key))
}

// policyText names the policy that sets a key; a definition without a name is an operator's.
func policyText(q broker.Queue, key string) string {
	if v, set := q.OperatorPolicy[key]; q.PolicyName == "" || set && v == q.Policy[key] {
		return "the operator policy"
	}
	return fmt.Sprintf("policy %q", q.PolicyName)
}

// OfAlarms returns a finding for each resource that nodes have too little of.
func OfAlarms(alarms []broker.Alarm) (out []Finding) {
	nodes := map[string][]string{}
	for _, a := range alarms {
		nodes[a.Resource] = append(nodes[a.Resource], a.Node)
	}
	for _, r := range slices.Sorted(maps.Keys(nodes)) {
		entry := CodeAlarm + "/" + r
		if _, known := catalogue()[entry]; !known {
			entry = CodeAlarm
		}
		slices.Sort(nodes[r])
		out = append(out, Say(entry, Vars{"resource": quoted(r), "nodes": strings.Join(nodes[r], ", ")}))
	}
	return out
}

const usualPrefetch = 10

// unattendedRule judges whether messages wait for a consumer. In a queue with a TTL they may wait for their return.
// AMQP reports no consumers of a stream.
func unattendedRule(f Facts, need Need, report func(Finding)) {
	_, expires := f.TTL()
	if need.Closely && f.Type != broker.Stream && f.Ready > 0 && f.Consumers == 0 && !expires {
		report(Say(CodeNoConsumer, Vars{"messages": printable.Plural(f.Ready, "message")}))
	}
}

// consumersRule judges the present consumers of the queue.
func consumersRule(f Facts, _ Need, report func(Finding)) {
	var auto, unbounded, prior []broker.Consumer
	for _, c := range f.Vitals.Consumers {
		switch {
		case !c.Acks:
			auto = append(auto, c)
		case c.Prefetch == 0:
			unbounded = append(unbounded, c)
		}
		if c.Priority() != 0 {
			prior = append(prior, c)
		}
	}
	if len(auto) > 0 {
		report(Say("auto-ack", Vars{"consumers": counted(auto, len(f.Vitals.Consumers))}))
	}
	if len(unbounded) > 0 {
		report(Say("no-prefetch", Vars{"consumers": counted(unbounded, len(f.Vitals.Consumers)),
			"prefetch": usualPrefetch}))
	}
	// Measured on 4.3.6; neither 3.10.8 nor 4.0.5 stops so (TestGhostOfAConsumerWithAPriority).
	if len(prior) > 0 && f.Type == broker.Quorum && f.SingleActive() && !f.Version.Before(4, 3) {
		report(Say("consumer-priority", Vars{"consumers": counted(prior, len(f.Vitals.Consumers))}))
	}
}

// counted counts some consumers and names one of them.
func counted(some []broker.Consumer, of int) string {
	return fmt.Sprintf("%d of %d (tag %q, connection %q)", len(some), of, some[0].Tag, some[0].Connection())
}

// messagesRule judges the messages that are in the queue now.
func messagesRule(f Facts, need Need, report func(Finding)) {
	v := f.Vitals
	if transient := v.Bytes - v.PersistentBytes; f.Type == broker.Classic && f.Durable && transient > 0 {
		report(Say("transient-messages", Vars{"n": transient, "of": v.Bytes}))
	}
	if need.Ordered && v.Priorities > 1 {
		report(Say("priorities-used", Vars{"n": v.Priorities}))
	}
}
