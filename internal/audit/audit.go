package audit

import (
	"fmt"
	"maps"
	"slices"
)

// Rules are rules by their names, each with its text.
type Rules []struct{ Name, Text string }

// Invariants are the rules of Check in the order in which they are reported.
var Invariants = Rules{
	{"lost", "each confirmed message was handled or dead-lettered, and none was acked that was not handled"},
	{"causes", "each dead letter had as many failed attempts as the limit, each with a cause, or was rejected"},
	{"bound", "a handler ran no more often than its message's limit allows, and for returns that were not its fault"},
	{"one", "one message was not taken for two"},
	{"isolated", "an isolated attempt had no handler beside it but abandoned ones; a crash was counted only against " +
		"such an attempt, and reversed if its process lived on"},
	{"begun", "a crash was counted only against an attempt whose handler had begun, or was to begin at the reply to " +
		"its BEGUN"},
	{"order", "no message was handled before another that was published before it"},
	{"answered", "without the store's reply nothing was decided, and nothing spun"},
	{"free", "a success at the first delivery cost no step"},
	{"drained", "nothing was left in the queue at the end"},
	{"settled", "nothing was both acked and dead-lettered, nor dead-lettered twice"},
	{"pause", "no attempt began on a process that had heard of a pause, or must have"},
}

// Finding counts the violations of one rule, with an example.
type Finding struct {
	Count   int    `json:"count"`
	Example string `json:"example,omitempty"`
}

// Report is the result of the checks of a history.
type Report struct {
	MostRuns int `json:"most_runs"` // of one message
	// counted against attempts whose BEGUN was sent, and whose handler did not begin, each with its attempt
	Unbegun    []string           `json:"-"`
	Violations map[string]Finding `json:"violations"`
	rules      Rules
}

// Broken lists the rules that were violated, each with an example.
func (r *Report) Broken() (out []string) {
	for _, rule := range r.rules {
		if f := r.Violations[rule.Name]; f.Count > 0 {
			out = append(out, fmt.Sprintf("%s (%s), %d times: %s", rule.Name, rule.Text, f.Count, f.Example))
		}
	}
	return out
}

// Violated reports a violation of a rule.
func (r *Report) Violated(rule, format string, args ...any) {
	f := r.Violations[rule]
	if f.Count++; f.Count == 1 {
		f.Example = fmt.Sprintf(format, args...)
	}
	r.Violations[rule] = f
}

// Check decides the invariants from a history.
func Check(history []Event) *Report {
	m := NewModel(Invariants)
	for _, e := range history {
		m.Add(e)
	}
	m.finish()
	return m.Report
}

// finish checks the rules that hold at the end.
func (m *Model) finish() {
	for _, id := range slices.Sorted(maps.Keys(m.Messages)) {
		msg := m.Messages[id]
		m.checkLoss(msg)
		m.checkRuns(msg)
		if len(msg.Dead) > 1 && msg.Copies < 2 && msg.moves == 0 {
			m.Violated("settled", "%s is %d times in the dead-letter queue: %s", id, len(msg.Dead), msg)
		}
		m.MostRuns = max(m.MostRuns, len(msg.Runs))
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
	m.CheckOrder()
}

// limit is how many failed attempts dead-letter a message.
func (m *Model) limit() int { return max(m.plan.MaxRetries, 0) + 1 }
