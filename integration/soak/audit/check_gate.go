package audit

import (
	"maps"
	"slices"
	"time"
)

// answerWithin is how long the isolation lock is held for a step that the store does not answer. Until then nothing else
// runs, so no other message's kill can be counted against the undecided one.
const answerWithin = 2 * time.Second

// clocks is how much earlier that time may end in the process, which reads its clock before it sends the step.
const clocks = 100 * time.Millisecond

// undecided returns the times in which the store owed an answer to a step of an exclusive attempt: to START, and to the step that
// closes the attempt. An answer that never came is owed until the process is gone.
func (m *model) undecided(a *attempt) (spans []span) {
	for _, asks := range []func(Event) bool{opensExclusive, closes} {
		i := slices.IndexFunc(a.steps, asks)
		if i < 0 {
			continue
		}
		owed := span{a.steps[i].At.Add(-a.steps[i].Took), m.gone(a)}
		for _, e := range a.steps[i:] {
			if e.Verdict != "" && (opensExclusive(e) || closes(e)) {
				owed.to = e.At
				break
			}
		}
		spans = append(spans, owed)
	}
	return spans
}

func opensExclusive(e Event) bool { return e.Step == "start" && e.Exclusive }

func closes(e Event) bool { return e.Step == "end" || e.Step == "fail" }

// gone returns when the process of an attempt ended, or the time of the last event of any if it lives.
func (m *model) gone(a *attempt) time.Time {
	if exited := m.process(a.process).exited; !exited.IsZero() {
		return exited
	}
	return m.last
}

// checkGate is I5: while an isolated attempt is undecided, its process begins no other attempt that took a START.
func (m *model) checkGate(r *Report, a *attempt) {
	if !a.askedAlone() {
		return
	}
	for _, s := range m.undecided(a) {
		for _, x := range m.process(a.process).runs {
			_, started := x.answered("start", "run")
			if x != a && started && x.began.After(s.from) && x.began.Before(s.to) {
				r.violated("I5", "%s was undecided, and the attempt of %s began: %s, beside %s", a.id, x.id, m.storyOf(a), m.storyOf(x))
				return
			}
		}
	}
}

// checkCrashes is I5: a crash is counted against the message that killed its process. If another handler ran when the process
// died, the kill may have been its own. The store must have left the message undecided for longer than the lock is held.
func (m *model) checkCrashes(r *Report) {
	for _, id := range slices.Sorted(maps.Keys(m.messages)) {
		msg := m.messages[id]
		for _, token := range slices.Sorted(maps.Keys(msg.kinds)) {
			if msg.kinds[token] != 'c' {
				continue
			}
			a := m.attempts[token]
			if a == nil { // its process died before it wrote down a step
				a = &attempt{token: token, id: id, process: m.owners[processPart(token)]}
			}
			m.checkCrash(r, a)
		}
	}
}

func (m *model) checkCrash(r *Report, a *attempt) {
	other := m.diedBeside(a)
	ran := !a.began.IsZero() && a.ended.IsZero() // when the process died: checkIsolated has the rest
	if other == nil || ran || !m.died(a) {
		return
	}
	died := m.process(a.process).exited
	left := slices.ContainsFunc(m.undecided(a), func(s span) bool {
		return s.to.Equal(died) && died.Sub(s.from) > answerWithin-clocks
	})
	if left {
		r.Undecided = append(r.Undecided, a.id+": "+m.storyOf(a)+", beside "+m.storyOf(other))
		return
	}
	r.violated("I5", "a crash was counted against %s, which did not run in the process, and %s did: %s, beside %s",
		a.id, other.id, m.storyOf(a), m.storyOf(other))
}

// diedBeside returns another attempt that ran when the process of a died.
func (m *model) diedBeside(a *attempt) *attempt {
	runs := m.process(a.process).runs
	i := slices.IndexFunc(runs, func(x *attempt) bool { return x != a && x.token != a.token && x.ended.IsZero() })
	if i < 0 {
		return nil
	}
	return runs[i]
}

// checkHarmless is I5: a message whose handler always succeeds is not dead-lettered for the kills of others.
func (m *model) checkHarmless(r *Report, msg *message) {
	if len(msg.dead) > 0 && msg.harmless() {
		r.violated("I5", "%s was to %s, and was dead-lettered: %s", msg.id, msg.do, m.story(msg))
	}
}

func (msg *message) harmless() bool { return msg.do == Succeed || msg.do == Slow }
