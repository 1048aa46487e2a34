package audit

import (
	"slices"
	"time"
)

// handledMark is how long the store keeps a record after a success; what is older than most of it may be gone.
const handledMark = 9 * time.Minute

// checkCharges is I4 and I7: what the record of a message says against what its runs wrote down.
func (m *model) checkCharges(r *Report, msg *message) {
	for _, a := range msg.attempts {
		n := 0
		for _, e := range a.decided {
			if e.Decision == "retry" || e.Decision == "dead-letter" && !e.Unrun {
				n++
			}
		}
		if n > 1 {
			r.violated("I4", "%s: one run was acted on %d times: %s", msg.id, n, m.storyOf(a))
		}
		if e, ok := a.answered("fail", "requeue"); ok && m.remembered(msg, e.At) && !m.has(msg, a.token) {
			r.violated("I7", "%s: the count of attempt %s is gone: %s", msg.id, a.token, m.story(msg))
		}
	}
	if msg.record == nil {
		return
	}
	failures, crashes := 0, 0
	for token, kind := range msg.kinds {
		switch kind {
		case 'f':
			failures++
		case 'c':
			crashes++
		}
		if a := m.attempts[token]; a != nil && a.id != msg.id {
			r.violated("I7", "the record of %s has attempt %s, which was one at %s", msg.id, token, a.id)
		}
	}
	if !msg.unique || failures != msg.record.Failures || crashes != msg.record.Crashes {
		r.violated("I4", "the record of %s counts %d failures and %d crashes: %s", msg.id, msg.record.Failures, msg.record.Crashes, m.story(msg))
	}
	if failures+crashes > m.limit() {
		r.violated("I4", "%s has %d failed attempts, and the limit is %d: %s", msg.id, failures+crashes, m.limit(), m.story(msg))
	}
}

// remembered reports whether what the store was told at a time has to be there in the end.
func (m *model) remembered(msg *message, at time.Time) bool {
	lost := slices.ContainsFunc(m.losses, func(l time.Time) bool { return l.After(at.Add(-time.Second)) })
	return !lost && len(m.kept) > 0 && (msg.record != nil || m.last.Sub(at) < handledMark)
}

// has reports whether the record knows a token as a failure. A second copy of a message begins anew, and makes history of
// the first one's.
func (m *model) has(msg *message, token string) bool {
	kind := msg.kinds[token]
	return kind == 'f' || kind == 'e' && msg.copies > 1
}

// checkKept is I10. What is left undecided must come from an attempt that could not know: its session was lost, its process
// died, or the store did not answer it.
func (m *model) checkKept(r *Report) {
	for _, e := range m.kept {
		if e.TTL <= 0 {
			r.violated("I10", "key %q does not expire", e.Key)
		}
		if e.ID == "" || e.State == "exhausted" || e.State == "done" {
			continue
		}
		msg := m.messages[e.ID]
		ofTheDead := e.OpenToken != "" && m.attempts[e.OpenToken] == nil // killed between START and what it wrote down
		if msg.copies < 2 && !ofTheDead && !slices.ContainsFunc(msg.attempts, m.unsure) {
			r.violated("I10", "%s is decided, and its record is live: %s", e.ID, m.story(msg))
		}
	}
}

func (m *model) unsure(a *attempt) bool {
	unanswered := slices.ContainsFunc(a.steps, func(e Event) bool { return e.Verdict == "" })
	return unanswered || m.sessionLost(a) || m.died(a)
}
