package audit

import (
	"cmp"
	"slices"
	"time"
)

// inTime is how long after the faults the queue may take to drain, besides the longest backoff.
const inTime = 60 * time.Second

// checkDrained is I11.
func (m *model) checkDrained(r *Report) {
	var quiet, drained time.Time
	for _, e := range m.quiet {
		switch e.Kind {
		case Quiet:
			quiet = e.At
		case Drained:
			drained = e.At
		default:
			r.violated("I11", "not drained: %s", e.Err)
		}
	}
	took := drained.Sub(quiet)
	switch {
	case quiet.IsZero() || drained.IsZero():
		r.violated("I11", "the queue was never seen drained")
	case took > inTime+m.plan.LongestBackoff:
		r.violated("I11", "it took %v to drain the queue", took)
	}
}

// checkOrder is I6, where order is promised.
func (m *model) checkOrder(r *Report) {
	if !m.plan.Ordered {
		r.Unchecked = append(r.Unchecked, "I6")
		return
	}
	inOrder := make([]*message, 0, len(m.messages))
	for _, msg := range m.messages {
		if msg.confirmed && msg.copies == 1 && len(msg.runs) > 0 {
			inOrder = append(inOrder, msg)
		}
	}
	slices.SortFunc(inOrder, func(a, b *message) int { return cmp.Compare(a.seq, b.seq) })
	var before *message // the one among those before that was done last
	for _, msg := range inOrder {
		if before != nil && msg.runs[0].began.Before(before.done()) {
			r.violated("I6", "%s was handled before %s was done", msg.id, before.id)
		}
		if before == nil || msg.done().After(before.done()) {
			before = msg
		}
	}
}

// never is later than anything that happened.
var never = time.Unix(1<<40, 0)

// done is when a message was first handled or dead-lettered.
func (msg *message) done() time.Time {
	first := never
	for _, a := range msg.attempts {
		if a.outcome == OK && a.ended.Before(first) {
			first = a.ended
		}
		if e, ok := a.decidedAs("dead-letter"); ok && e.At.Before(first) {
			first = e.At
		}
	}
	return first
}
