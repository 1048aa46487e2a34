package audit

import (
	"maps"
	"slices"
)

// checkWritten takes in a step that the store took. Of the record it checks only that a count has a cause: TestModel of
// package counter checks each step against the record before it.
func (m *model) checkWritten(a *attempt, e Event) {
	a.written = append(a.written, e)
	msg := m.message(e.ID)
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
		(e.Late || !a.process.session(e.Session).gone.IsZero() || msg.forgets > 0) {
		msg.renewals++
	}
	if c := m.copies[a.copy]; e.Step == StepEnd && e.Succeeded && c != nil && c.copyNumber > 0 && msg.finished.IsZero() {
		msg.finished = e.At
	}
}

// checkStep checks that a step was due.
func (m *model) checkStep(a *attempt, msg *message, e Event) {
	switch e.Step {
	case StepStart:
		a.countable = a.countable || (!a.session.gone.IsZero() || m.died(a)) && !a.innocent
	case StepFail:
		if !m.failing(a) {
			m.violated("causes", "a failure of %s was counted, which had not failed: %s", e.ID, m.storyOf(a))
		}
		if e.Record != nil && e.Record.Duplicate && !e.before().Duplicate && msg.copies < 2 && msg.forgets == 0 &&
			len(m.losses) == 0 {
			m.violated("one", "%s is one message, and was taken for two", e.ID)
		}
	}
}

// checkCounts checks that a step counts one failed attempt at most, and that the record becomes a tombstone at its
// limit.
func (m *model) checkCounts(a *attempt, msg *message, e Event) {
	was, is, before := e.before(), *e.Record, e.before().Failures+e.before().Crashes
	counts := is.Failures + is.Crashes
	if counts > before+1 {
		m.violated("causes", "%s counted %d failed attempts: %s", e.Step, counts-before, m.story(msg))
	}
	msg.exhausted = msg.exhausted || is.State == ReplyExhausted
	if is.State == ReplyExhausted && was.State != ReplyExhausted && was.State != "skip" && counts < m.limit() &&
		e.Limit > 0 && !m.isEarly(a, e) {
		m.violated("causes", "%s wrote a tombstone at %d failed attempts of %d: %s", e.Step, counts, m.limit(), m.story(msg))
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
func (m *model) checkCounted(by *attempt, msg *message, e Event) {
	before := kinds(e.before().Tokens)
	if (e.Step == StepFail || e.Step == StepEnd) && msg.kinds[e.Token] == 'c' {
		m.violated("isolated", "%s did not reverse the crash of an attempt whose process lives: %s", e.Step, m.storyOf(by))
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
