package inspect

import (
	"maps"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/broker"
)

// membersRule judges whether the replicas of the queue and of its dead-letter queues are up. Only a close look
// applies it, so that a node that restarts keeps no consumer from starting.
func membersRule(f Facts, _ Need, report func(Finding)) {
	if f.Vitals == nil {
		return
	}
	queueMembers(f.Queue, report)
	for _, q := range f.Vitals.Targets {
		queueMembers(q, func(x Finding) { report(x.about(q.Name)) })
	}
}

func queueMembers(q broker.Queue, report func(Finding)) {
	down := q.Down()
	if q.Type != broker.Quorum || len(down) == 0 {
		return
	}
	up := len(q.Members) - len(down)
	entry := CodeMemberDown
	if up < q.Majority() {
		entry = CodeMinority
	}
	report(Say(entry, Vars{
		"queue": quoted(q.Name), "nodes": strings.Join(down, ", "),
		"up": up, "members": len(q.Members), "majority": q.Majority(),
	}))
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
