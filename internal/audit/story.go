package audit

import (
	"fmt"
	"strings"
)

// story tells what became of a message, for a person.
func (m *model) story(msg *message) string {
	var parts []string
	for _, a := range msg.attempts {
		parts = append(parts, m.storyOf(a))
	}
	if msg.record != nil {
		parts = append(parts, "record: "+msg.record.State+" "+msg.record.Tokens)
	}
	return strings.Join(parts, "; ")
}

// storyOf tells one attempt in a line.
func (m *model) storyOf(a *attempt) string {
	token := a.token[max(0, len(a.token)-8):]
	parts := []string{fmt.Sprintf("p%d.%d %s", a.process.number, a.session.number, token)}
	for _, e := range a.steps {
		parts = append(parts, e.stepStory())
	}
	switch {
	case a.began.IsZero():
	case a.ended.IsZero():
		parts = append(parts, "ran and did not end")
	default:
		parts = append(parts, "ran: "+a.outcome)
	}
	if a.sessionLost() {
		parts = append(parts, "session lost")
	}
	if m.died(a) {
		parts = append(parts, "process died")
	}
	return strings.Join(parts, ", ")
}

func (e Event) stepStory() string {
	name := e.Step
	switch {
	case e.Isolated:
		name += " isolated"
	case e.Beside:
		name += " beside"
	}
	if e.Code == "" {
		return name + "=no answer"
	}
	return name + "=" + e.Code
}

// Story prints a history, an event a line, with short names for tokens.
func Story(history []Event) string {
	var b strings.Builder
	names := map[string]string{"": ""}
	short := func(token string) string {
		if names[token] == "" && token != "" {
			names[token] = fmt.Sprintf("T%d", len(names))
		}
		return names[token]
	}
	for _, e := range history {
		fmt.Fprintf(&b, "%9.3fs %s\n", e.At.Sub(history[0].At).Seconds(), e.line(short))
	}
	return b.String()
}

func (e Event) line(short func(string) string) string {
	who := ""
	if e.Process > 0 {
		who = fmt.Sprintf("p%d", e.Process)
	}
	if e.Session > 0 {
		who += fmt.Sprintf(" s%d", e.Session)
	}
	parts := []string{fmt.Sprintf("%-7s %-9s", who, e.Kind)}
	if e.ID != "" {
		parts = append(parts, "of "+e.ID)
	}
	if e.Tag > 0 {
		parts = append(parts, fmt.Sprintf("tag %d", e.Tag))
	}
	for _, p := range []string{e.Copy, e.Lane, e.Do, short(e.Token), e.Step, e.Decision, e.Outcome, e.Err} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	for _, f := range []struct {
		is   bool
		name string
	}{{e.Late, "late"}, {e.Isolated, "isolated"}, {e.Beside, "beside"}, {e.Redelivered, "redelivered"},
		{e.Accepted, "done"}, {e.Paused, "paused"}} {
		if f.is {
			parts = append(parts, f.name)
		}
	}
	if e.Code != "" {
		parts = append(parts, "-> "+e.Code)
	}
	if e.Kind == Written {
		parts = append(parts, e.Record.line(short))
	}
	return strings.Join(parts, " ")
}

func (r *Record) line(short func(string) string) string {
	if r == nil {
		return "(no record)"
	}
	out := fmt.Sprintf("(%d+%d", r.Failures, r.Crashes)
	if r.State != "" {
		out += " " + r.State
	}
	if r.OpenToken != "" {
		out += " open " + short(r.OpenToken)
		if r.OpenIsolated {
			out += " isolated"
		}
		if r.OpenReserved {
			out += " reserved"
		}
	}
	if r.Suspect {
		out += " suspect"
	}
	return out + ")"
}
