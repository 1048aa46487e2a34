package topology

import (
	"fmt"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

const codeDropsHead = "drops-head"

// limitsRule looks for what removes messages before their retries are over.
func limitsRule(f facts, _ Need) []Finding {
	if f.Type != queueinfo.Classic && f.Type != queueinfo.Quorum {
		return nil
	}
	var out []Finding
	if ms, set := f.TTL(); set {
		out = append(out, Finding{
			Code: "message-ttl", Severity: Warning,
			Seen: fmt.Sprintf("messages expire after %d ms in the queue", ms),
			Why: "one that waits behind others, or for its retry, longer than that is dead-lettered with the reason expired, " +
				"or dropped, without having been tried",
			Fix: f.unset("x-message-ttl", "message-ttl"),
		})
	}
	if f.Limited() && f.DropsHead() {
		out = append(out, Finding{
			Code: codeDropsHead, Severity: Warning,
			Seen: fmt.Sprintf("the queue holds at most %s, and drops from its head", f.LengthText()),
			Why:  "the first to go is the message that is next, or being retried; it is dead-lettered with the reason maxlen, or dropped",
			Fix:  "set " + queueinfo.ArgOverflow + "=reject-publish, which makes publishers wait instead, or the same by policy",
		})
	}
	if ms, set := f.Expires(); set {
		out = append(out, Finding{
			Code: "expires", Severity: Warning,
			Seen: fmt.Sprintf("the queue is deleted after %d ms without a consumer", ms),
			Why:  "when the consumers are down for longer, all messages are lost, those to be retried included",
			Fix:  f.unset("x-expires", "expires"),
		})
	}
	return out
}

// unset says how to be rid of a setting.
func (f facts) unset(arg, key string) string {
	if _, byArgument := f.Args[arg]; byArgument {
		return "declare the queue anew without " + arg
	}
	return fmt.Sprintf("take %s out of %s", key, f.policyText())
}

// policyText names the policy; a definition without a name is an operator's.
func (f facts) policyText() string {
	if f.PolicyName == "" {
		return "the operator policy"
	}
	return fmt.Sprintf("policy %q", f.PolicyName)
}
