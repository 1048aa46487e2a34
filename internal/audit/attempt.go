package audit

import (
	"slices"
	"time"
)

// mostUnanswered is how often a step may be tried in vain within a second; the backoff begins at 25 ms and doubles.
const mostUnanswered = 10

// checkAttempt checks the rules answered and free.
func (m *Model) checkAttempt(a *Attempt) {
	if !a.Began.IsZero() && !a.first && !a.granted() {
		m.Violated("answered", "%s ran again without a START that said so: %s", a.ID, a)
	}
	if n := a.spun(); n > mostUnanswered {
		m.Violated("answered", "%s: one step was tried %d times in a second without a reply", a.ID, n)
	}
	asked := len(a.steps)+len(a.written) > 0
	if a.Outcome == OK && a.first && !a.overdue() && asked {
		m.Violated("free", "%s succeeded at its first delivery and took a step: %s", a.ID, a)
	}
}

// spun returns how often one step was tried within a second and had no reply.
func (a *Attempt) spun() int {
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
func (m *Model) failing(a *Attempt) bool {
	switch a.Outcome {
	case Failed, Panicked, Goexit, Rejected, TimedOut:
		return true
	case "":
		at := m.now
		if a.Process.Died() {
			at = a.Process.Exited
		}
		return !a.Began.IsZero() && !at.Before(a.until)
	}
	return a.overdue()
}

// overdue reports whether the handler returned after its deadline.
func (a *Attempt) overdue() bool { return !a.Ended.IsZero() && !a.Ended.Before(a.until) }

// end is when the handler of an attempt returned, or its process was gone; zero: it runs.
func (a *Attempt) end() time.Time {
	if a.Ended.IsZero() {
		return a.Process.Exited
	}
	return a.Ended
}

// answered returns the first reply of the store to a step; the empty code is any.
func (a *Attempt) answered(step, code string) (Event, bool) {
	return find(a.steps, func(e Event) bool {
		return e.Step == step && e.Code != "" && (code == "" || e.Code == code)
	})
}

// granted reports whether START had let the attempt run when it began.
func (a *Attempt) granted() bool {
	e, ok := a.answered(StepStart, ReplyRun)
	return ok && !e.At.After(a.Began)
}

// exhausted reports whether a step had that reply.
func (a *Attempt) exhausted() bool {
	return slices.ContainsFunc(a.steps, func(e Event) bool { return e.Code == ReplyExhausted })
}

// unanswered returns from when on a step of the attempt has no reply, so that it may be open without running; zero:
// each step has one.
func (a *Attempt) unanswered() (since time.Time) {
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
func (a *Attempt) isolated() bool {
	return a.any(func(e Event) bool { return e.Step == StepStart && e.Isolated && e.Code == ReplyRun })
}

// Beside reports whether the attempt ran isolated, but for abandoned handlers.
func (a *Attempt) Beside() bool {
	return a.any(func(e Event) bool { return e.Step == StepStart && e.Beside && e.Code == ReplyRun })
}

func (a *Attempt) any(is func(Event) bool) bool {
	return slices.ContainsFunc(a.steps, is) || slices.ContainsFunc(a.written, is)
}

func find(events []Event, is func(Event) bool) (Event, bool) {
	i := slices.IndexFunc(events, is)
	if i < 0 {
		return Event{}, false
	}
	return events[i], true
}
