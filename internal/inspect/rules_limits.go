package inspect

import "github.com/strikesmq/strikes/internal/queueinfo"

// limitsRule looks for what removes messages before their retries are over.
func limitsRule(f Facts, _ Need) []Finding {
	if f.Type != queueinfo.Classic && f.Type != queueinfo.Quorum {
		return nil
	}
	var out []Finding
	if ms, set := f.TTL(); set {
		out = append(out, Say("message-ttl", Vars{"ms": ms, "unset": unset(f.Queue, queueinfo.ArgTTL, "message-ttl")}))
	}
	if f.Limited() && f.DropsHead() {
		out = append(out, Say(CodeDropsHead, Vars{"length": f.LengthText()}))
	}
	if ms, set := f.Expires(); set {
		out = append(out, Say("expires", Vars{"ms": ms, "unset": unset(f.Queue, queueinfo.ArgExpires, "expires")}))
	}
	return out
}
