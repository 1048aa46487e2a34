package topology

import (
	"fmt"
	"slices"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// rule looks at one matter. It must not judge what the facts leave open as if
// it were known.
type rule func(facts, Need) []Finding

var rules = []rule{
	brokerRule,
	readableRule,
	lifetimeRule,
	requeueRule,
	deliveryLimitRule,
	orderRule,
	deadLetterRule,
	deadLetterRouteRule,
	astrayRule,
	loopRule,
	deadLetterStrategyRule,
	conflictRule,
	targetRule,
	limitsRule,
	foreignPolicyRule,
	consumersRule,
	consumerTimeoutRule,
	messagesRule,
	managementRule,
}

// judge returns the findings in the order of all rules.
func judge(f facts, need Need) []Finding { return judgeBy(rules, f, need) }

// judgeBy returns the findings of some rules. The commands mend these alone.
func judgeBy(some []rule, f facts, need Need) []Finding {
	var all []Finding
	for _, r := range some {
		all = append(all, r(f, need)...)
	}
	f.mend(all, need)
	return all
}

// policyMayMend says whether a policy that is not seen yet could turn the
// finding into none. A start is not kept waiting for a warning.
func (f facts) policyMayMend(x Finding) bool {
	return (x.Severity >= Error || f.vitals != nil) && slices.Contains([]string{
		codeNoDeadLetterExchange, codeDeadLetterUnproven, codeTail, codeDiscard, codeLimitLow, codeLimitTight, codeAtMostOnce,
	}, x.Code)
}

func brokerRule(f facts, _ Need) []Finding {
	if f.product == "RabbitMQ" && !f.Version.Before(3, 10) {
		return nil
	}
	return []Finding{{
		Code: "broker-unmeasured", Severity: Warning,
		Seen: fmt.Sprintf("the broker is %q, version %s", f.product, f.Version),
		Why:  "where it puts requeued messages was measured for RabbitMQ 3.10 and later only",
		Fix:  "test retries and dead lettering on this broker before relying on them, or use RabbitMQ 4.3",
	}}
}

// Codes of the one finding that stands for all when a queue cannot be read.
const (
	CodeUnknown = "arguments-unknown"
	CodeDenied  = "arguments-denied" // for want of a permission
)

// readableRule answers for all that cannot be judged when the queue cannot be
// read.
func readableRule(f facts, _ Need) []Finding {
	if f.Unread == "" {
		return nil
	}
	code := CodeUnknown
	if f.Denied {
		code = CodeDenied
	}
	return []Finding{{
		Code: code, Severity: Error,
		Seen: "how the queue was declared cannot be read: " + f.Unread,
		Why:  "it cannot be shown that requeued messages keep their place and rejected ones are not lost",
		Fix: "give the URL of the management API (Management, --management-url), or the permission to configure the queue " +
			"(nothing is created or changed with it); or set a check of your own",
	}}
}

func lifetimeRule(f facts, _ Need) []Finding {
	if f.Exclusive {
		return []Finding{{
			Code: "exclusive", Severity: Error,
			Seen: "the queue is exclusive to one connection",
			Why:  "it is deleted with all its messages when that connection is lost, so nothing could be retried",
			Fix:  "declare the queue without exclusive",
		}}
	}
	if f.Type == "" {
		return nil
	}
	var out []Finding
	if f.AutoDelete {
		out = append(out, Finding{
			Code: "auto-delete", Severity: Warning,
			Seen: "the queue is deleted when its last consumer leaves",
			Why:  "when the last consumer crashes or restarts, all messages are lost, those to be retried included",
			Fix:  "declare the queue without auto-delete",
		})
	}
	if !f.Durable {
		out = append(out, Finding{
			Code: "transient", Severity: Warning,
			Seen: "the queue is not durable",
			Why:  "a restart of the broker deletes it with all its messages",
			Fix:  "declare the queue durable, and publish persistent messages",
		})
	}
	return out
}

// orderRule looks for what would break strict order.
func orderRule(f facts, need Need) []Finding {
	var out []Finding
	if kind, _ := f.Text(queueinfo.ArgDelayedRetry, "delayed-retry-type"); kind != "" && kind != "disabled" {
		severity := Warning
		if need.Ordered {
			severity = Error
		}
		out = append(out, Finding{
			Code: "delayed-retry", Severity: severity,
			Seen: fmt.Sprintf("the delayed retry type is %q", kind),
			Why:  "the broker holds returned messages back and delivers others first",
			Fix:  f.unset(queueinfo.ArgDelayedRetry, "delayed-retry-type") + ": the wait between attempts is the consumer's",
		})
	}
	if !need.Ordered || f.Type == "" {
		return out
	}
	if single, _ := f.Args[queueinfo.ArgSingleActive].(bool); !single {
		out = append(out, Finding{
			Code: "not-single-active", Severity: Error,
			Seen: queueinfo.ArgSingleActive + " is not set",
			Why:  "several consumers get messages at the same time, so one overtakes another that is being retried",
			Fix:  "declare the queue with " + queueinfo.ArgSingleActive + "=true (a policy cannot set it)",
		})
	}
	if n, _ := f.Args[queueinfo.ArgMaxPriority].(int64); n > 0 {
		out = append(out, Finding{
			Code: "priorities", Severity: Error,
			Seen: fmt.Sprintf("%s is %d", queueinfo.ArgMaxPriority, n),
			Why:  "messages of a higher priority overtake",
			Fix:  "declare the queue without " + queueinfo.ArgMaxPriority,
		})
	}
	return out
}

func managementRule(f facts, _ Need) []Finding {
	if f.unasked {
		return []Finding{{
			Code: "not-seen", Severity: Warning,
			Seen: "the management API was not asked",
			Why: "AMQP does not tell of policies, of what is bound to the dead-letter exchange, of the dead-letter queue, " +
				"and of who consumes: all that may be wrong unseen",
			Fix: "give the URL of the management API (Management, --management-url)",
		}}
	}
	if f.apiTrouble == "" {
		return nil
	}
	return []Finding{{
		Code: "management-unreachable", Severity: Warning,
		Seen: "the management API does not tell: " + f.apiTrouble,
		Why:  "the queue was judged without what only the API knows: policies, and what is bound to its dead-letter exchange",
		Fix:  "correct the URL of the management API (Management, --management-url), or leave it empty",
	}}
}
