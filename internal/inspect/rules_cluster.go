package inspect

import (
	"maps"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/broker"
)

// membersRule judges whether the replicas of the queue and of its dead-letter queues are up. Only a close look
// applies it, so that a node that restarts keeps no consumer from starting.
func membersRule(f Facts, _ Need) []Finding {
	if f.Vitals == nil {
		return nil
	}
	out := ofMembers(f.Queue)
	for _, q := range f.Vitals.Targets {
		for _, x := range ofMembers(q) {
			out = append(out, x.about(q.Name))
		}
	}
	return out
}

func ofMembers(q broker.Queue) []Finding {
	down := q.Down()
	if q.Type != broker.Quorum || len(down) == 0 {
		return nil
	}
	up := len(q.Members) - len(down)
	entry := CodeMemberDown
	if up < q.Majority() {
		entry = CodeMinority
	}
	return []Finding{Say(entry, Vars{
		"queue": quoted(q.Name), "nodes": strings.Join(down, ", "),
		"up": up, "members": len(q.Members), "majority": q.Majority(),
	})}
}

// OfAlarms returns a finding for each resource that nodes have too little of.
func OfAlarms(alarms []broker.Alarm) (out []Finding) {
	nodes := map[string][]string{}
	for _, a := range alarms {
		nodes[a.Resource] = append(nodes[a.Resource], a.Node)
	}
	for _, r := range slices.Sorted(maps.Keys(nodes)) {
		entry := CodeAlarm + "/" + r
		if _, known := catalogue[entry]; !known {
			entry = CodeAlarm
		}
		slices.Sort(nodes[r])
		out = append(out, Say(entry, Vars{"resource": quoted(r), "nodes": strings.Join(nodes[r], ", ")}))
	}
	return out
}
