package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// String tells the history of a message, for a person.
func (msg *Message) String() string {
	parts := []string{fmt.Sprintf("to %s, %d copies, %d dead letters", msg.Do, msg.Copies, len(msg.Dead))}
	for _, a := range msg.Attempts {
		parts = append(parts, a.String())
	}
	if msg.record != nil {
		parts = append(parts, "record: "+msg.record.State+" "+msg.record.Tokens)
	}
	return strings.Join(parts, "; ")
}

// String tells the attempt in a line.
func (a *Attempt) String() string {
	token := a.token[max(0, len(a.token)-8):]
	parts := []string{fmt.Sprintf("p%d.%d %s", a.Process.number, a.Session.number, token)}
	for _, e := range a.steps {
		parts = append(parts, e.stepStory())
	}
	switch {
	case a.Began.IsZero():
	case a.Ended.IsZero():
		parts = append(parts, "ran and did not end")
	default:
		parts = append(parts, "ran at "+a.Began.Format("15:04:05.000")+": "+a.Outcome)
	}
	if a.SessionLost() {
		parts = append(parts, "session lost")
	}
	if a.Process.Died() {
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
		return name + "=no reply"
	}
	return name + "=" + e.Code
}

// Story prints a history, an event a line: its fields that are not zero, with short names for tokens.
func Story(history []Event) string {
	var b strings.Builder
	short := map[string]string{} // by token
	for _, e := range history {
		if e.Token != "" && short[e.Token] == "" {
			short[e.Token] = fmt.Sprintf("T%d", len(short)+1)
		}
		after := e.At.Sub(history[0].At).Seconds()
		e.At, e.Before = time.Time{}, nil
		line, err := json.Marshal(e)
		if err != nil {
			panic(err) // it has nothing that JSON does not know
		}
		fmt.Fprintf(&b, "%9.3fs %s\n", after, line)
	}
	// One token may begin another, so the longest come first.
	tokens := slices.SortedFunc(maps.Keys(short), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var names []string
	for _, token := range tokens {
		names = append(names, token, short[token])
	}
	return strings.NewReplacer(names...).Replace(b.String())
}
