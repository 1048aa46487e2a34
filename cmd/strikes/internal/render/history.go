package render

import (
	"fmt"
	"io"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/ops"
)

// duplicateText says what the signs of a second message mean.
const duplicateText = "two messages with this id may be in the queue, and share its attempts"

// history prints a line for each attempt, after an empty one.
func history(w io.Writer, attempts []ops.Attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := term.NewTable(w,
		term.Column{Title: "ATTEMPT"}, term.Column{Title: "FAILED", Drop: 3}, term.Column{Title: "RAN", Drop: 1},
		term.Column{Title: "CAUSE"},
		term.Column{Title: "CONSUMER", Min: leastReason, Drop: 2}, term.Column{Title: "ERROR", Min: leastReason},
	)
	for _, a := range attempts {
		ran := "-"
		if a.Cause != counter.CauseCrashed {
			ran = (time.Duration(a.RanMS) * time.Millisecond).String()
		}
		cells := []string{fmt.Sprint(a.Number), a.At.Format(time.RFC3339), ran, string(a.Cause),
			term.Brief(a.Consumer, longest), term.Brief(a.Reason, longest)}
		if err := t.Row(cells...); err != nil {
			return err
		}
	}
	return t.Flush()
}
