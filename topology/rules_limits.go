package topology

import "fmt"

const codeDropsHead = "drops-head"

// limitsRule looks for what removes messages before their retries are over.
func limitsRule(f facts, _ Need) []Finding {
	if f.kind != string(Classic) && f.kind != string(Quorum) {
		return nil
	}
	var out []Finding
	if ms, set := f.smaller("x-message-ttl", "message-ttl"); set {
		out = append(out, Finding{
			Code: "message-ttl", Severity: Warning,
			Seen: fmt.Sprintf("messages expire after %d ms in the queue", ms),
			Why: "one that waits behind others, or for its retry, longer than that is dead-lettered with the reason expired, " +
				"or dropped, without having been tried",
			Fix: f.unset("x-message-ttl", "message-ttl"),
		})
	}
	if _, limited := f.lengthLimit(); limited && f.dropsHead() {
		out = append(out, Finding{
			Code: codeDropsHead, Severity: Warning,
			Seen: fmt.Sprintf("the queue holds at most %s, and drops from its head", f.lengthText()),
			Why:  "the first to go is the message that is next, or being retried; it is dead-lettered with the reason maxlen, or dropped",
			Fix:  "set " + argOverflow + "=reject-publish, which makes publishers wait instead, or the same by policy",
		})
	}
	if ms, set := f.smaller("x-expires", "expires"); set {
		out = append(out, Finding{
			Code: "expires", Severity: Warning,
			Seen: fmt.Sprintf("the queue is deleted after %d ms without a consumer", ms),
			Why:  "when the consumers are down for longer, all messages are lost, those to be retried included",
			Fix:  f.unset("x-expires", "expires"),
		})
	}
	return out
}

// lengthLimit is the number of messages, or else of bytes, that the queue holds.
func (f facts) lengthLimit() (int64, bool) {
	if n, set := f.smaller("x-max-length", "max-length"); set {
		return n, true
	}
	return f.smaller("x-max-length-bytes", "max-length-bytes")
}

func (f facts) lengthText() string {
	if n, set := f.smaller("x-max-length", "max-length"); set {
		return count(int(n), "message")
	}
	n, _ := f.lengthLimit()
	return fmt.Sprintf("%d bytes", n)
}

func (f facts) dropsHead() bool {
	o := f.overflow()
	return o == "" || o == "drop-head"
}

// unset says how to be rid of a setting.
func (f facts) unset(arg, key string) string {
	if _, byArgument := f.args[arg]; byArgument {
		return "declare the queue anew without " + arg
	}
	return fmt.Sprintf("take %s out of %s", key, f.policyText())
}

// policyText names the policy; a definition without a name is an operator's.
func (f facts) policyText() string {
	if f.policyName == "" {
		return "the operator policy"
	}
	return fmt.Sprintf("policy %q", f.policyName)
}
