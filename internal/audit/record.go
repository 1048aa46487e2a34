package audit

import (
	"maps"
	"slices"
	"time"
)

// checkWritten takes in a step that the store took, and compares what it changed with what it may change.
func (m *model) checkWritten(a *attempt, e Event) {
	a.written = append(a.written, e)
	msg := m.message(e.ID)
	msg.keep(e.Record)
	m.checkSkipped(e)
	m.checkStep(a, msg, e)
	if e.Record == nil {
		if e.Before != nil {
			m.violated("own", "%s deleted the record", e.Step)
		}
		return
	}
	m.checkRecord(msg, e.Record.TTL, e.Step)
	m.checkChange(a, msg, e)
	m.checkEarly(a, msg, e)
	m.checkTouched(a, msg, e)
	m.checkCounted(a, msg, e)
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
		if a.times(StepFail) > 1 && e.Record == nil {
			m.violated("once", "a failure of %s was counted again", e.ID)
		}
		before := e.Before != nil && e.Before.Duplicate
		if e.Record != nil && e.Record.Duplicate && !before && msg.copies < 2 && msg.forgets == 0 && len(m.losses) == 0 {
			m.violated("own", "%s is one message, and was taken for two", e.ID)
		}
	}
}

func (a *attempt) times(step string) (n int) {
	for _, e := range a.written {
		if e.Step == step {
			n++
		}
	}
	return n
}

// checkRecord checks that a record counts each of its tokens once, and expires.
func (m *model) checkRecord(msg *message, ttl time.Duration, when string) {
	failures, crashes := 0, 0
	for token, kind := range msg.kinds {
		switch kind {
		case 'f':
			failures++
		case 'c':
			crashes++
		}
		if a := m.attempts[token]; a != nil && a.id != msg.id {
			m.violated("own", "the record of %s has attempt %s, which was one at %s", msg.id, token, a.id)
		}
	}
	if r := msg.record; !msg.unique || failures != r.Failures || crashes != r.Crashes {
		m.violated("once", "%s: the record of %s counts %d failures and %d crashes: %s", when, msg.id, r.Failures, r.Crashes,
			m.story(msg))
	}
	if ttl <= 0 {
		m.violated("expiry", "%s: the record of %s does not expire", when, msg.id)
	}
}

// checkChange checks that the record became a tombstone at its limit, and that its fence grows.
func (m *model) checkChange(a *attempt, msg *message, e Event) {
	was := e.before()
	counts := e.Record.Failures + e.Record.Crashes
	msg.early = msg.early || m.isEarly(a, e)
	if e.Record.State == ReplyExhausted && was.State != ReplyExhausted && was.State != "skip" && counts < m.limit() &&
		e.Limit > 0 && !m.isEarly(a, e) {
		m.violated("causes", "%s wrote a tombstone at %d failed attempts of %d: %s", e.Step, counts, m.limit(), m.story(msg))
	}
	if e.Record.Fence < was.Fence {
		m.violated("own", "%s set the fence of %s from %d back to %d", e.Step, e.ID, was.Fence, e.Record.Fence)
	}
}

// before is the record before a step, empty if there was none.
func (e Event) before() Record {
	if e.Before == nil {
		return Record{}
	}
	return *e.Before
}

// checkTouched checks that an attempt changes nothing but its own count and open attempt.
func (m *model) checkTouched(by *attempt, msg *message, e Event) {
	was, is := e.before(), *e.Record
	// history, of which a new use of the id takes nothing over
	anew := was.State != "" && was.State != "skip" && (e.First || e.Step == StepStart)
	if anew {
		if e.First && (e.Late || !by.process.session(e.Session).gone.IsZero() || msg.forgets > 0) && is.State != was.State {
			msg.renewals++
		}
		return
	}
	counted := ""
	if e.Step == StepStart && (e.Isolated || e.Beside) && was.OpenIsolated && was.OpenToken != by.token {
		counted = was.OpenToken
	}
	others := func(tokens string) map[string]byte {
		of, _ := kinds(tokens)
		maps.DeleteFunc(of, func(token string, kind byte) bool {
			return token == by.token || token == counted || kind == 'e'
		})
		return of
	}
	if !maps.Equal(others(was.Tokens), others(is.Tokens)) {
		m.violated("own", "%s of one attempt at %s changed the count of another", e.Step, e.ID)
	}
	if was.OpenToken == is.OpenToken || was.OpenToken == by.token {
		return
	}
	switch {
	case e.Step != StepStart:
		m.violated("own", "%s changed the open attempt of another at %s", e.Step, e.ID)
	case was.OpenReserved: // its handler does not begin any more
	case !e.Isolated && !e.Beside && was.OpenToken != "" && (msg.moves == 0 || m.plan.Isolation != IsolationOff):
		// there copies open one to wait for each other
		m.violated("own", "START replaced an open attempt at %s that may still run", e.ID)
	}
}

// checkCounted takes in as what each attempt is counted.
func (m *model) checkCounted(by *attempt, msg *message, e Event) {
	before, _ := kinds(e.before().Tokens)
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
