package audit

import (
	"maps"
	"slices"
)

// checkWritten takes in a step that the store took. Of the record it checks only that a count has a cause: TestModel of
// package counter checks each step against the record before it.
func (m *Model) checkWritten(a *Attempt, e Event) {
	a.written = append(a.written, e)
	msg := m.Message(e.ID)
	msg.record, msg.kinds = e.Record, nil
	m.checkStep(a, msg, e)
	if e.Record == nil {
		return
	}
	msg.kinds = kinds(e.Record.Tokens)
	m.checkCounts(a, msg, e)
	m.checkEarly(a, msg, e)
	m.checkCounted(a, msg, e)
	if was := e.before(); was.State != "" && was.State != "skip" && was.State != e.Record.State && e.First &&
		(e.Late || !a.Process.Session(e.Session).Gone.IsZero() || msg.forgets > 0) {
		msg.renewals++
	}
	if c := m.copies[a.copy]; e.Step == StepEnd && e.Succeeded && c != nil && c.copyNumber > 0 && msg.finished.IsZero() {
		msg.finished = e.At
	}
}

// checkStep checks that a step was due.
func (m *Model) checkStep(a *Attempt, msg *Message, e Event) {
	switch e.Step {
	case StepStart:
		a.countable = a.countable || (!a.Session.Gone.IsZero() || a.Process.Died()) && !a.innocent
	case StepFail:
		if !m.failing(a) && !(a.Outcome == Crashed && a.isolated() && a.countable) {
			m.Violated("causes", "a failure of %s was counted, which had not failed: %s", e.ID, a)
		}
		if e.Record != nil && e.Record.Duplicate && !e.before().Duplicate && msg.Copies < 2 && msg.forgets == 0 &&
			len(m.losses) == 0 {
			m.Violated("one", "%s is one message, and was taken for two", e.ID)
		}
	}
}

// checkCounts checks that a step counts one failed attempt at most, and that the record becomes a tombstone at its
// limit.
func (m *Model) checkCounts(a *Attempt, msg *Message, e Event) {
	was, is, before := e.before(), *e.Record, e.before().Failures+e.before().Crashes
	counts := is.Failures + is.Crashes
	if counts > before+1 {
		m.Violated("causes", "%s counted %d failed attempts: %s", e.Step, counts-before, msg)
	}
	msg.exhausted = msg.exhausted || is.State == ReplyExhausted
	if is.State == ReplyExhausted && was.State != ReplyExhausted && was.State != "skip" && counts < m.limit() &&
		e.Limit > 0 && !m.isEarly(a, e) {
		m.Violated("causes", "%s wrote a tombstone at %d failed attempts of %d: %s", e.Step, counts, m.limit(), msg)
	}
}

// before is the record before a step, empty if there was none.
func (e Event) before() Record {
	if e.Before == nil {
		return Record{}
	}
	return *e.Before
}

// checkCounted notes the kind with which each attempt is counted, and checks it.
func (m *Model) checkCounted(by *Attempt, msg *Message, e Event) {
	before := kinds(e.before().Tokens)
	if (e.Step == StepFail || e.Step == StepEnd) && msg.kinds[e.Token] == 'c' {
		m.Violated("isolated", "%s did not reverse the crash of an attempt whose process lives: %s", e.Step, by)
	}
	for _, token := range slices.Sorted(maps.Keys(msg.kinds)) {
		a, kind := m.attempts[token], msg.kinds[token]
		if a == nil {
			continue
		}
		if kind == 'c' && before[token] != 'c' {
			m.checkCrashCounted(by, a, msg, e)
		}
		switch {
		case kind == 'f', kind == 'c':
			a.kind = kind
		case kind == 'e' && a.kind == 'c' && by == a:
			a.kind = 0 // reversed
		}
	}
}

const causeTooOld = "too-old"

// isEarly reports whether a step wrote a tombstone below the limit with good reason.
func (m *Model) isEarly(a *Attempt, e Event) bool {
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
func (m *Model) tooOld(r Record) bool {
	return m.plan.MaxAge > 0 && r.Failures+r.Crashes > 0 && r.Age > m.plan.MaxAge
}

// checkEarly checks the rules causes and bound for an age or a handler that ends retries below the limit: neither too
// early nor too late.
func (m *Model) checkEarly(a *Attempt, msg *Message, e Event) {
	was, is := e.before(), *e.Record
	if is.Cause == causeTooOld && was.State != ReplyExhausted && is.State == ReplyExhausted && !m.tooOld(is) {
		m.Violated("causes", "%s took %s for too old, at %v of %v: %s", e.Step, e.ID, is.Age, m.plan.MaxAge, msg)
	}
	counted := e.Step == StepFail && is.Failures > was.Failures || e.Step == StepStart && is.Crashes > was.Crashes
	if !counted || is.State != "" || msg.moves > 0 { // the step may be of a delivery whose copy is judged instead
		return
	}
	if m.tooOld(is) {
		m.Violated("bound", "%s is too old, at %v of %v, and is retried: %s", e.ID, is.Age, m.plan.MaxAge, msg)
	}
	heard := !a.Ended.IsZero() && a.Ended.Before(a.until.Add(leftBehindAfter))
	if counts := is.Failures + is.Crashes; e.Step == StepFail && heard && a.atMost > 0 && counts >= a.atMost {
		m.Violated("bound", "%s has %d failed attempts, its handler allowed %d, and it is retried: %s", e.ID, counts,
			a.atMost, msg)
	}
}
