package audit

import "time"

// abandonedAfter is how long after its deadline a handler is heard.
const abandonedAfter = 2 * time.Second

const causeTooOld = "too-old"

// isEarly reports whether a step wrote a tombstone below the limit with good reason.
func (m *model) isEarly(a *attempt, e Event) bool {
	is, counts := *e.Record, e.Record.Failures+e.Record.Crashes
	if is.State != ReplyExhausted || e.before().State == ReplyExhausted || counts >= m.limit() || e.Limit == 0 {
		return false
	}
	if is.Cause == causeTooOld {
		return m.tooOld(is)
	}
	return e.Step == StepFail && is.Failures > e.before().Failures && a.atMost > 0 && counts >= a.atMost
}

// tooOld reports whether a record's last counted attempt was too late after its first.
func (m *model) tooOld(r Record) bool {
	return m.plan.MaxAge > 0 && r.Failures+r.Crashes > 0 && r.Age > m.plan.MaxAge
}

// checkEarly checks the rules causes and bound for an age or a handler that ends retries below the limit: neither too
// early nor too late.
func (m *model) checkEarly(a *attempt, msg *message, e Event) {
	was, is := e.before(), *e.Record
	if is.Cause == causeTooOld && was.State != ReplyExhausted && is.State == ReplyExhausted && !m.tooOld(is) {
		m.violated("causes", "%s took %s for too old, at %v of %v: %s", e.Step, e.ID, is.Age, m.plan.MaxAge, m.story(msg))
	}
	counted := e.Step == StepFail && is.Failures > was.Failures || e.Step == StepStart && is.Crashes > was.Crashes
	if !counted || is.State != "" || msg.moves > 0 { // the step may be of a delivery whose copy is judged instead
		return
	}
	if m.tooOld(is) {
		m.violated("bound", "%s is too old, at %v of %v, and is retried: %s", e.ID, is.Age, m.plan.MaxAge, m.story(msg))
	}
	heard := !a.ended.IsZero() && a.ended.Before(a.until.Add(abandonedAfter))
	if counts := is.Failures + is.Crashes; e.Step == StepFail && heard && a.atMost > 0 && counts >= a.atMost {
		m.violated("bound", "%s has %d failed attempts, its handler allowed %d, and it is retried: %s", e.ID, counts,
			a.atMost, m.story(msg))
	}
}
