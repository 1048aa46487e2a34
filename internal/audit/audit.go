package audit

import (
	"fmt"
	"maps"
	"slices"
)

// Invariants in the order in which they are reported, each with what it says.
var Invariants = []struct{ Name, Text string }{
	{"lost", "what was confirmed was handled or dead-lettered, and nothing was acked that was not handled"},
	{"causes", "what was dead-lettered had as many failed attempts as the limit, each with a cause, or was rejected"},
	{"bound", "a handler ran no more often than its message's limit allows, and for returns that were not its fault"},
	{"once", "an attempt was counted once"},
	{"isolated", "an isolated attempt had no handler beside it but abandoned ones; a crash was counted only against " +
		"such an attempt, and reversed if its process lived on"},
	{"innocents", "no message whose handler always succeeds was dead-lettered"},
	{"begun", "a crash was counted only against an attempt whose handler had begun, or was to begin at the answer to " +
		"its BEGUN"},
	{"order", "nothing was handled before what was published before it"},
	{"own", "an attempt changed nothing but its own count and open attempt"},
	{"answered", "without the store's answer nothing was decided, and nothing spun"},
	{"free", "a success at the first delivery cost no step"},
	{"expiry", "every key expires, and only what is decided was left"},
	{"drained", "the queue was drained in time"},
	{"settled", "nothing was both acked and dead-lettered, nor dead-lettered twice"},
	{"pause", "no attempt began on a process that had heard of a pause, or must have"},
	{"skip", "a skipped message was dead-lettered at its next step, with the operator's reason"},
}

// Finding is what was seen against one invariant.
type Finding struct {
	Count   int    `json:"count"`
	Example string `json:"example,omitempty"`
}

// Report is what a history comes to.
type Report struct {
	Type        string `json:"type"`
	Seed        uint64 `json:"seed"`
	Messages    int    `json:"messages"`
	Copies      int    `json:"copies"` // published again, because the first time was undecided
	Runs        int    `json:"runs"`
	DeadLetters int    `json:"dead_letters"`
	Dropped     int    `json:"dead_letters_dropped"` // by the broker, when it was killed: see checkLoss
	Deaths      int    `json:"deaths"`               // of consumer processes
	Sessions    int    `json:"sessions"`
	Innocents   int    `json:"innocents_counted"`       // harmless messages with a failed attempt
	Condemned   int    `json:"innocents_dead_lettered"` // of them
	// counted against attempts that were only stopped: the store was out of reach
	Mistaken int `json:"crashes_mistaken"`
	MostRuns int `json:"most_runs"` // of one message
	// counted against attempts whose BEGUN was sent, and whose handler did not begin, each with its attempt
	Unbegun []string `json:"crashes_unbegun"`
	// counted against what the store left undecided for over 2 s, each with its attempt
	Undecided    []string           `json:"crashes_undecided"`
	DrainSeconds float64            `json:"drain_seconds"` // once all was published and no fault began any more
	FaultsByKind map[string]int     `json:"faults"`
	Violations   map[string]Finding `json:"violations"`
	Unchecked    []string           `json:"unchecked,omitempty"` // not promised, or not tried, in this history
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

// Check decides the invariants from a history in the order of its times, as Read returns it.
func Check(history []Event) *Report {
	m := newModel(&Report{FaultsByKind: map[string]int{}, Violations: map[string]Finding{}})
	for _, i := range Invariants {
		m.report.Violations[i.Name] = Finding{}
	}
	for _, e := range history {
		m.add(e)
	}
	m.finish()
	return m.report
}

// finish checks what has to be true in the end.
func (m *model) finish() {
	m.checkKept()
	for _, id := range slices.Sorted(maps.Keys(m.messages)) {
		msg := m.messages[id]
		m.checkLoss(msg)
		m.checkDeadLetters(msg)
		m.checkHarmless(msg)
		m.checkRuns(msg)
		m.checkTrace(msg)
		m.checkOnce(msg)
	}
	for _, token := range slices.Sorted(maps.Keys(m.attempts)) {
		a := m.attempts[token]
		m.checkAttempt(a)
		m.checkIsolated(a)
		m.checkGate(a)
		m.checkBegan(a)
		if a.crashed { // of a complete history
			m.checkBegun(a)
		}
	}
	if !m.plan.Complete { // else each was checked at the step that counted it
		m.checkCrashes()
		m.report.Unchecked = append(m.report.Unchecked, "pause", "skip")
	}
	m.checkOrder()
	m.checkDrained()
	m.count()
}

// count fills in the figures.
func (m *model) count() {
	r := m.report
	r.Type, r.Seed = m.plan.Type, m.plan.Seed
	for _, msg := range m.messages {
		r.Messages++
		r.Copies += max(msg.copies-1, 0)
		r.Runs += len(msg.runs)
		r.DeadLetters += len(msg.dead)
		r.MostRuns = max(r.MostRuns, len(msg.runs))
		if !msg.harmless() {
			continue
		}
		if msg.record != nil && msg.record.Failures+msg.record.Crashes > 0 {
			r.Innocents++
		}
		if len(msg.dead) > 0 {
			r.Condemned++
		}
	}
	for _, p := range m.processes {
		r.Sessions += p.last
		if !p.clean && !p.exited.IsZero() {
			r.Deaths++
		}
	}
}

// limit is how many failed attempts dead-letter a message.
func (m *model) limit() int { return max(m.plan.MaxRetries, 0) + 1 }
