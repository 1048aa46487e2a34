package audit

import (
	"fmt"
	"maps"
	"slices"
)

// Invariants in the order in which they are reported, each with its text.
var Invariants = []struct{ Name, Text string }{
	{"lost", "each confirmed message was handled or dead-lettered, and none was acked that was not handled"},
	{"causes", "each dead letter had as many failed attempts as the limit, each with a cause, or was rejected"},
	{"bound", "a handler ran no more often than its message's limit allows, and for returns that were not its fault"},
	{"one", "one message was not taken for two"},
	{"isolated", "an isolated attempt had no handler beside it but abandoned ones; a crash was counted only against " +
		"such an attempt, and reversed if its process lived on"},
	{"begun", "a crash was counted only against an attempt whose handler had begun, or was to begin at the answer to " +
		"its BEGUN"},
	{"order", "no message was handled before another that was published before it"},
	{"answered", "without the store's answer nothing was decided, and nothing spun"},
	{"free", "a success at the first delivery cost no step"},
	{"drained", "nothing was left in the queue at the end"},
	{"settled", "nothing was both acked and dead-lettered, nor dead-lettered twice"},
	{"pause", "no attempt began on a process that had heard of a pause, or must have"},
}

// Finding counts the violations of one invariant, with an example.
type Finding struct {
	Count   int
	Example string
}

// Report is the result of the checks of a history.
type Report struct {
	MostRuns int // of one message
	// counted against attempts whose BEGUN was sent, and whose handler did not begin, each with its attempt
	Unbegun    []string
	Violations map[string]Finding
}

// Broken lists the invariants that were violated, each with an example.
func (r *Report) Broken() (out []string) {
	for _, i := range Invariants {
		if f := r.Violations[i.Name]; f.Count > 0 {
			out = append(out, fmt.Sprintf("%s, %d times: %s", i.Name, f.Count, f.Example))
		}
	}
	return out
}

func (m *model) violated(invariant, format string, args ...any) {
	f := m.report.Violations[invariant]
	if f.Count == 0 {
		f.Example = fmt.Sprintf(format, args...)
	}
	f.Count++
	m.report.Violations[invariant] = f
}

// Check decides the invariants from a history.
func Check(history []Event) *Report {
	m := &model{
		report: &Report{Violations: map[string]Finding{}}, messages: map[string]*message{},
		copies: map[string]*published{}, attempts: map[string]*attempt{}, processes: map[int]*process{},
	}
	for _, i := range Invariants {
		m.report.Violations[i.Name] = Finding{}
	}
	for _, e := range history {
		m.add(e)
	}
	m.finish()
	return m.report
}

// finish checks the rules that hold at the end.
func (m *model) finish() {
	for _, id := range slices.Sorted(maps.Keys(m.messages)) {
		msg := m.messages[id]
		m.checkLoss(msg)
		m.checkRuns(msg)
		if len(msg.dead) > 1 && msg.copies < 2 && msg.moves == 0 {
			m.violated("settled", "%s is %d times in the dead-letter queue: %s", id, len(msg.dead), m.story(msg))
		}
		m.report.MostRuns = max(m.report.MostRuns, len(msg.runs))
	}
	for _, token := range slices.Sorted(maps.Keys(m.attempts)) {
		a := m.attempts[token]
		m.checkAttempt(a)
		m.checkIsolated(a)
		m.checkGate(a)
		m.checkBegan(a)
		if a.crashed {
			m.checkBegun(a)
		}
	}
	m.checkOrder()
}

// limit is how many failed attempts dead-letter a message.
func (m *model) limit() int { return max(m.plan.MaxRetries, 0) + 1 }
