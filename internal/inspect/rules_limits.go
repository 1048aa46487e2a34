package inspect

import "github.com/strikesmq/strikes/internal/broker"

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
