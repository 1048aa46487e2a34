package render

import (
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/ops"
)

func noteText(n ops.Unseen, queue string) string {
	switch n.Code {
	case ops.AssumedQueue:
		return AssumedQueue(queue, n.Queue, n.Err)
	case ops.DepthDenied:
		return fmt.Sprintf("cannot count the messages in %s: the broker's user needs the read permission on it, or the "+
			"management API: %v", term.Shown(n.Queue), n.Err)
	case ops.ForeignRecord:
		return "a record's key holds something else; its message is held: strikes counter list says what to do"
	case ops.LanesDenied:
		return fmt.Sprintf("the dead letters in blocked lanes could not be counted, so others may be missing "+
			"unseen: %v", n.Err)
	case ops.ManyRecords:
		return fmt.Sprintf("there are more than %d records: only the newest were read", n.Count)
	case ops.NoManagement:
		why := "the management API does not answer at its usual address (--management-url names another)"
		if errors.Is(n.Err, broker.ErrDenied) {
			why = "the management API refuses the AMQP user (--management-url takes another)"
		}
		return fmt.Sprintf("no rates, no counts of what others consumed from the dead-letter queue or what waits for "+
			"it: %s: %v", why, n.Err)
	case ops.NoRates:
		return fmt.Sprintf("no rates: %v", n.Err)
	case ops.Unexamined:
		return fmt.Sprintf("the queue could not be examined: %v", n.Err)
	case ops.TakenNotCounted:
		return fmt.Sprintf("cannot count what was consumed from %s: %v", term.Shown(n.Queue), n.Err)
	default: // OverrideIgnored
		return n.Err.Error()
	}
}

// AssumedQueue says that the name of a dead-letter queue is a guess.
func AssumedQueue(queue, assumed string, why error) string {
	return fmt.Sprintf("the dead-letter queue of %s is assumed to be %s (--dead-letter-queue names another): %v",
		term.Shown(queue), term.Shown(assumed), why)
}

// StatusLine is a status in JSON, with the texts that its figures and notes
// lead to.
type StatusLine struct {
	ops.Status
	Dead  deadLettersJSON `json:"dead_lettered"`
	Notes []string        `json:"notes,omitempty"`
}

type deadLettersJSON struct {
	ops.DeadLetters
	Summary string `json:"summary"`
}

// StatusJSON is a status in JSON.
func StatusJSON(s ops.Status) StatusLine {
	out := StatusLine{Status: s, Dead: deadLettersJSON{s.Dead, holding(s.Dead)}}
	if s.Dead.Missing > 0 {
		out.Dead.Summary += "; missing " + missing(s.Dead)
	}
	for _, n := range s.Notes {
		out.Notes = append(out.Notes, noteText(n, s.Queue))
	}
	return out
}
