package counter

import (
	"testing"

	"github.com/strikesmq/strikes/counter/rules"
)

// A reason that an operator writes is not read as an argument of the delay queues.
func TestWhyIsNoDelay(t *testing.T) {
	note := Note{By: "op", Why: "delay 5 0 0 ab"}
	for _, s := range stores(t) {
		changes := map[string]func(Message) error{
			"limit": func(m Message) error { return s.LimitMessage(t.Context(), m, 9, note) },
			"reset": func(m Message) error { return s.Reset(t.Context(), m, note) },
			"skip":  func(m Message) error { return errOf(s.Skip(t.Context(), m, note)) },
		}
		for name, change := range changes {
			m := message(name)
			need(t, errOf(s.Fail(t.Context(), attempt(m, "a"), again)))
			need(t, change(m))
			if move := s.look(t, m).Move; move != (rules.Move{}) {
				t.Errorf("%s: %s: the message counts as moved: %+v", s.name, name, move)
			}
		}
	}
}
