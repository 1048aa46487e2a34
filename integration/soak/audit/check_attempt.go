package audit

import (
	"slices"
	"time"
)

// mostUnanswered is how often a step may be tried in vain within a second; the backoff begins at 25 ms and doubles.
const mostUnanswered = 10

// checkAttempt is I8 and I9, and of I2 that each failed attempt has a cause.
func (m *model) checkAttempt(r *Report, a *attempt) {
	story := func() string { return m.storyOf(a) }
	if _, asked := a.answered("start", "run"); a.redelivered && !a.began.IsZero() && !asked {
		r.violated("I8", "%s was redelivered and ran without a START that said so: %s", a.id, story())
	}
	if why := m.unfounded(a); why != "" {
		r.violated("I8", "%s: %s: %s", a.id, why, story())
	}
	if n := a.spun(); n > mostUnanswered {
		r.violated("I8", "%s: one step was tried %d times in a second without an answer", a.id, n)
	}
	if a.outcome == OK && !a.redelivered && !m.again(a) && len(a.steps) > 0 && !a.counted() {
		r.violated("I9", "%s succeeded at its first delivery and took a step: %s", a.id, story())
	}
	if e, ok := a.decidedAs("dead-letter"); ok && e.Failures+e.Crashes < e.Limit && !m.message(a.id).rejected() {
		if e.Failures+e.Crashes == e.Limit-1 && m.reversed(a.id) { // its tombstone was there before
			r.Mistaken++
		} else {
			r.violated("I2", "%s was dead-lettered at %d failed attempts of %d: %s", a.id, e.Failures+e.Crashes, e.Limit, story())
		}
	}
	late := a.ended.Sub(a.began) >= m.plan.HandlerTimeout
	if a.counted() && !late && (a.outcome == OK || a.outcome == Cancelled) {
		r.violated("I2", "%s was counted although its attempt ended as %q: %s", a.id, a.outcome, story())
	}
}

// reversed reports whether a crash was counted for an attempt whose process turned out to live: it ended it, not counted,
// after it had it to itself.
func (m *model) reversed(id string) bool {
	msg := m.message(id)
	return slices.ContainsFunc(msg.attempts, func(a *attempt) bool {
		_, ended := a.answered("end", "")
		return ended && a.askedAlone() && a.outcome != OK && msg.kinds[a.token] == 'e'
	})
}

// counted reports whether FAIL was asked for.
func (a *attempt) counted() bool {
	_, ok := a.answered("fail", "")
	return ok
}

// unfounded names a decision that no answer of the store calls for. That a delivery was held for as long as it may be calls
// for giving it back.
func (m *model) unfounded(a *attempt) string {
	_, failed := a.answered("fail", "requeue")
	_, held := a.answered("start", "wait")
	if e, ok := a.decidedAs("requeue"); ok && !failed && !held && e.Held < m.plan.MostHeld {
		return "requeued without an answer"
	}
	_, past := a.answered("start", "exhausted")
	_, spent := a.answered("fail", "exhausted")
	if e, ok := a.decidedAs("dead-letter"); ok && e.Cause != "rejected" && !past && !spent {
		return "dead-lettered without an answer"
	}
	return ""
}

// spun returns how often one step was tried within a second and not answered.
func (a *attempt) spun() int {
	most := 0
	for i, first := range a.steps {
		n := 0
		for _, e := range a.steps[i:] {
			if e.Step == first.Step && e.Verdict == "" && e.At.Sub(first.At) < time.Second {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// checkIsolated is I5: isolated attempts ran alone, and no crash was counted against another.
func (m *model) checkIsolated(r *Report, a *attempt) {
	if a.exclusive() && !a.began.IsZero() {
		if other := m.besides(a); other != nil {
			r.violated("I5", "%s (%s) ran isolated, and %s beside it", a.id, m.storyOf(a), other.id)
		}
	}
	if m.message(a.id).kinds[a.token] != 'c' {
		return
	}
	_, ended := a.answered("end", "")
	if !m.died(a) && !ended {
		r.Mistaken++
	}
	switch {
	case !m.died(a) && !m.sessionLost(a) && !a.left():
		r.violated("I5", "%s had a crash counted, and neither its process nor its session had ended: %s", a.id, m.storyOf(a))
	case ended:
		r.violated("I5", "%s had a crash counted by mistake, reversed it, and the count stands: %s", a.id, m.storyOf(a))
	case a.beside():
		r.violated("I5", "a crash was counted against %s, and an abandoned handler ran beside it: %s", a.id, m.storyOf(a))
	case !a.askedAlone() && !m.died(a):
		r.violated("I5", "%s had a crash counted and had not asked to run isolated: %s", a.id, m.storyOf(a))
	}
}

func (a *attempt) askedAlone() bool {
	for _, e := range a.steps {
		if e.Step == "start" && e.Exclusive {
			return true
		}
	}
	return false
}

// besides returns a run that overlapped with that of a in its process. A handler that ignores its deadline is isolated until
// then, and runs beside others until it returns.
func (m *model) besides(a *attempt) *attempt {
	until := m.end(a)
	if deadline := a.began.Add(m.plan.HandlerTimeout); m.message(a.id).outlives() && until.After(deadline) {
		until = deadline
	}
	for _, x := range m.process(a.process).runs {
		if x != a && x.began.Before(until) && a.began.Before(m.end(x)) {
			return x
		}
	}
	return nil
}

// outlives reports whether the handler of a message runs on after its deadline.
func (msg *message) outlives() bool { return msg.do == Deaf || msg.do == Abandon }

// end is when the handler of an attempt returned, or its process was gone.
func (m *model) end(a *attempt) time.Time {
	if a.ended.IsZero() {
		return m.process(a.process).exited
	}
	return a.ended
}
