package audit

import (
	"slices"
	"time"
)

// mostUnanswered is how often a step may be tried in vain within a second; the backoff begins at 25 ms and doubles.
const mostUnanswered = 10

// checkAttempt checks the rules answered and free.
func (m *model) checkAttempt(a *attempt) {
	story := func() string { return m.storyOf(a) }
	if !a.began.IsZero() && !a.first && !a.granted() {
		m.violated("answered", "%s ran again without a START that said so: %s", a.id, story())
	}
	if n := a.spun(); n > mostUnanswered {
		m.violated("answered", "%s: one step was tried %d times in a second without an answer", a.id, n)
	}
	asked := len(a.steps)+len(a.written) > 0
	if a.outcome == OK && a.first && !a.overdue() && asked {
		m.violated("free", "%s succeeded at its first delivery and took a step: %s", a.id, story())
	}
}

// spun returns how often one step was tried within a second and not answered.
func (a *attempt) spun() int {
	most := 0
	for i, first := range a.steps {
		n := 0
		for _, e := range a.steps[i:] {
			if e.Step == first.Step && e.Code == "" && e.At.Sub(first.At) < time.Second {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// failing reports whether the handler failed, or passed its deadline while its process lived.
func (m *model) failing(a *attempt) bool {
	switch a.outcome {
	case Failed, Panicked, Goexit, Rejected, TimedOut:
		return true
	case "":
		at := m.now
		if m.died(a) {
			at = a.process.exited
		}
		return !a.began.IsZero() && !at.Before(a.until)
	}
	return a.overdue()
}

// overdue reports whether the handler returned after its deadline.
func (a *attempt) overdue() bool { return !a.ended.IsZero() && !a.ended.Before(a.until) }

// end is when the handler of an attempt returned, or its process was gone; zero: it runs.
func (a *attempt) end() time.Time {
	if a.ended.IsZero() {
		return a.process.exited
	}
	return a.ended
}

// answered returns the first answer of the store to a step; the empty code is any.
func (a *attempt) answered(step, code string) (Event, bool) {
	return find(a.steps, func(e Event) bool {
		return e.Step == step && e.Code != "" && (code == "" || e.Code == code)
	})
}

// granted reports whether START had let the attempt run when it began.
func (a *attempt) granted() bool {
	e, ok := a.answered(StepStart, ReplyRun)
	return ok && !e.At.After(a.began)
}

// exhausted reports whether a step was answered so.
func (a *attempt) exhausted() bool {
	return slices.ContainsFunc(a.steps, func(e Event) bool { return e.Code == ReplyExhausted })
}

// unanswered returns from when on a step of the attempt is not answered, so that it may be open without running; zero:
// none is.
func (a *attempt) unanswered() (since time.Time) {
	for _, e := range a.steps {
		if e.Code != "" {
			since = time.Time{}
		} else if since.IsZero() {
			since = e.At
		}
	}
	return since
}

// isolated reports whether START isolated let the attempt run.
func (a *attempt) isolated() bool {
	return a.any(func(e Event) bool { return e.Step == StepStart && e.Isolated && e.Code == ReplyRun })
}

// beside reports whether the attempt ran isolated, but for abandoned handlers.
func (a *attempt) beside() bool {
	return a.any(func(e Event) bool { return e.Step == StepStart && e.Beside && e.Code == ReplyRun })
}

func (a *attempt) any(is func(Event) bool) bool {
	return slices.ContainsFunc(a.steps, is) || slices.ContainsFunc(a.written, is)
}

func find(events []Event, is func(Event) bool) (Event, bool) {
	i := slices.IndexFunc(events, is)
	if i < 0 {
		return Event{}, false
	}
	return events[i], true
}
