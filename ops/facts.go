package ops

import (
	"fmt"
	"time"

	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
)

// Fact is something that an operator should know about a queue.
type Fact struct {
	Text  string // escaped
	Class string // "bad" needs a person, "warn" may need one; empty: it explains a figure
}

// longestFact is the most characters that a fact has of a text by a handler, a person or a server.
const longestFact = 200

// Facts returns the defects of a queue, the worst first, and other facts that its figures do not show.
func (s Status) Facts(now time.Time) (all []Fact) {
	add := func(is bool, class, format string, args ...any) {
		if is {
			all = append(all, Fact{fmt.Sprintf(format, args...), class})
		}
	}
	for _, f := range s.Findings {
		add(true, "bad", "%s", InShort(f))
	}
	add(s.DeadLettersOf != "", "", "takes the dead letters of %s, which does not exist", printable.Name(s.DeadLettersOf))
	add(s.Unknown != "", "bad", "not known: %s", printable.Line(s.Unknown, longestFact))
	add(s.Undecodable != "", "bad", "a message ends every session that receives it")
	said := "" // a reason that a fact gives already
	if b := s.Breaker; b.Stops() {
		if said = b.Reason; said != "" {
			said = ": " + printable.Line(said, longestFact)
		}
		add(true, "bad", "no progress for %s%s; %s failed, none succeeded, nothing is counted",
			printable.Rough(now.Sub(b.Since)), said, printable.Plural(b.Failed, "message"))
		said = b.Reason
	} else if b != nil {
		add(true, "", "%s", b.Text(now))
	}
	if m := s.Head; m != nil && m.State != Forgotten {
		class := "warn"
		if s.Trouble == TroubleBlocked {
			class = "bad"
		}
		add(s.Blocked > 0, class, "blocked for %s by %s, %s", printable.Rough(s.Blocked), printable.Name(m.ID), m.Which())
		add(s.Blocked == 0, "", "%s: %s", printable.Name(m.ID), m.Which())
		add(m.LastError != "" && m.LastError != said, "", "%s", printable.Line(m.LastError, longestFact))
	}
	add(s.Dead.Missing > 0, "bad", "%s unaccounted for", printable.Plural(int(s.Dead.Missing), "dead letter"))
	add(s.BlockedLanes > 0, "warn", "%s, %s", printable.Plural(s.BlockedLanes, "blocked lane"),
		printable.Plural(int(s.Dead.Blocked), "blocked message"))
	if s.Paused != nil {
		add(true, "warn", "paused for %s%s", printable.Rough(now.Sub(s.Paused.At)), s.Paused.ByAndWhy())
	} else if n := s.Unattended(); n > 0 {
		add(true, "bad", "no consumer, %s ready", printable.Plural(n, "message"))
	}
	if w := s.AllWaiting(); w.Messages > 0 {
		why := ""
		if w.Why != "" && w.Why != said {
			why = ": " + printable.Line(w.Why, longestFact)
		}
		add(true, "warn", "%s waiting for %s, not counted%s", printable.Plural(w.Messages, "message"),
			printable.Rough(now.Sub(w.Since)), why)
	}
	add(s.Silent > 0, "warn", "%s", printable.Plural(s.Silent, "silent process"))
	add(s.Dead.Unrecorded > 0, "", "%s not known to the store", printable.Plural(int(s.Dead.Unrecorded), "dead letter"))
	add(s.Forgotten > 0, "", "%d forgotten", s.Forgotten)
	add(s.Limit != nil, "", "limited by an operator")
	add(len(s.Dead.Landings) > 0, "", "dead letters land in %s", printable.Plural(len(s.Dead.Landings), "queue"))
	add(s.Sharing > 0, "", "shares its dead-letter queue with %s", printable.Plural(s.Sharing, "queue"))
	add(s.Partial, "", "not all records were read")
	return all
}

// InShort returns a finding in a few words, escaped.
func InShort(f inspect.Finding) string {
	seen := printable.Line(f.Seen, longestFact)
	switch {
	case f.Code == inspect.CodeNoDeadLetterExchange:
		return "no dead-letter exchange: rejected messages are lost"
	case losesDeadLetters(f):
		return "dead-letter route broken: " + seen
	}
	return seen
}
