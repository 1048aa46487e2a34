package audit

import (
	"fmt"
	"strings"
)

// storyOf tells one attempt in a line.
func (m *model) storyOf(a *attempt) string {
	parts := []string{fmt.Sprintf("p%d.%d %s", a.process, a.session, a.token[max(0, len(a.token)-8):])}
	for _, e := range a.steps {
		parts = append(parts, stepStory(e))
	}
	switch {
	case a.began.IsZero():
	case a.ended.IsZero():
		parts = append(parts, "ran and did not end")
	default:
		parts = append(parts, "ran: "+a.outcome)
	}
	for _, e := range a.decided {
		parts = append(parts, e.Decision)
	}
	if m.sessionLost(a) {
		parts = append(parts, "session lost")
	}
	if m.died(a) {
		parts = append(parts, "process died")
	}
	return strings.Join(parts, ", ")
}

func stepStory(e Event) string {
	name := e.Step
	switch {
	case e.Exclusive:
		name += " isolated"
	case e.Beside:
		name += " beside"
	}
	if e.Verdict == "" {
		return name + "=no answer"
	}
	return fmt.Sprintf("%s=%s(%d+%d)", name, e.Verdict, e.Failures, e.Crashes)
}
