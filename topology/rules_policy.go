package topology

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// foreign keys keep a policy from applying to a queue of the type. Measured on
// 3.10.8, 4.0.5 and 4.3.6; keys that only one of them knows are not here.
var foreign = map[string][]string{
	queueinfo.Classic: {
		"dead-letter-strategy", "delivery-limit", "initial-cluster-size", "max-age", "stream-max-segment-size-bytes",
		"target-group-size",
	},
	queueinfo.Quorum: {
		"ha-mode", "ha-params", "ha-promote-on-failure", "ha-promote-on-shutdown", "ha-sync-mode", "initial-cluster-size",
		"max-age", "queue-master-locator", "queue-mode", "stream-max-segment-size-bytes",
	},
}

// foreignPolicyRule looks for policies that were meant for the queue and do not
// apply.
func foreignPolicyRule(f facts, _ Need) []Finding {
	if f.vitals == nil || !f.PolicyKnown {
		return nil
	}
	var out []Finding
	for _, p := range f.policies.user {
		keys := p.foreignTo(f.Type)
		if len(keys) == 0 || p.Name == f.PolicyName || !p.matches(f.Name, f.Type) {
			continue
		}
		out = append(out, Finding{
			Code: "policy-not-applied", Severity: Warning,
			Seen: fmt.Sprintf("policy %q matches the queue, and RabbitMQ does not apply it: a %s queue knows no %s",
				p.Name, f.Type, strings.Join(keys, ", ")),
			Why:     "of such a policy nothing is applied, its other keys neither: " + strings.Join(p.keys(), ", "),
			Fix:     fmt.Sprintf("take %s out of it, or make two policies with apply-to classic_queues and quorum_queues", strings.Join(keys, ", ")),
			Command: p.without(f, keys),
		})
	}
	return out
}

func (p apiPolicy) foreignTo(kind string) []string {
	var out []string
	for _, k := range p.keys() {
		if slices.Contains(foreign[kind], k) {
			out = append(out, k)
		}
	}
	return out
}

func (p apiPolicy) keys() []string { return slices.Sorted(maps.Keys(p.Definition)) }

// matches says whether the policy's pattern and apply-to are for the queue. A
// pattern that Go cannot read (RabbitMQ's are PCRE) is taken not to match.
func (p apiPolicy) matches(queue, kind string) bool {
	switch p.ApplyTo {
	case "queues", "all", kind + "_queues":
	default:
		return false
	}
	pattern, err := regexp.Compile(p.Pattern)
	return err == nil && pattern.MatchString(queue)
}

// without is the policy less its foreign keys; "" if nothing would be left.
func (p apiPolicy) without(f facts, keys []string) string {
	left := maps.Clone(p.Definition)
	for _, k := range keys {
		delete(left, k)
	}
	if len(left) == 0 {
		return ""
	}
	body := map[string]any{"pattern": p.Pattern, "apply-to": p.ApplyTo, "priority": p.Priority, "definition": left}
	return f.console.request("PUT", body, "policies", f.VHost, p.Name)
}

// conflictRule looks for two ways of the dead letters, of which one is not
// taken.
func conflictRule(f facts, _ Need) []Finding {
	var out []Finding
	for _, s := range []struct{ arg, key string }{
		{queueinfo.ArgDeadLetterExchange, "dead-letter-exchange"}, {queueinfo.ArgDeadLetterKey, "dead-letter-routing-key"},
	} {
		byArgument, a := f.Args[s.arg].(string)
		byPolicy, p := f.Policy[s.key].(string)
		if !a || !p || byArgument == byPolicy {
			continue
		}
		out = append(out, Finding{
			Code: "dead-letter-conflict", Severity: Warning,
			Seen: fmt.Sprintf("%s is %q, and %s says %q", s.arg, byArgument, f.policyText(), byPolicy),
			Why:  "the argument is what RabbitMQ obeys: whoever changes the policy changes nothing, and dead letters go where nobody looks",
			Fix:  fmt.Sprintf("take %s out of %s, or declare the queue anew without %s", s.key, f.policyText(), s.arg),
		})
	}
	return out
}
