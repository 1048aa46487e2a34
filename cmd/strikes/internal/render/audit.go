package render

import (
	"fmt"
	"io"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

// Audit returns a list of changes as a table, or as JSON lines.
func Audit(w io.Writer, asJSON bool) List[counter.AuditEntry] {
	if asJSON {
		return newLines(w, func(e counter.AuditEntry) any { return e })
	}
	return table[counter.AuditEntry]{term.NewTable(w,
		term.Column{Title: "TIME"}, term.Column{Title: "WHO", Min: leastReason}, term.Column{Title: "WHAT"},
		term.Column{Title: "OF", Min: leastReason},
		term.Column{Title: "COUNT", Drop: 1}, term.Column{Title: "RESULT", Min: leastReason},
		term.Column{Title: "WHY", Min: leastReason},
	), auditCells}
}

func auditCells(e counter.AuditEntry) []string {
	count := "-"
	if e.Count > 0 {
		count = fmt.Sprint(e.Count)
	}
	return []string{
		e.Time.Format(time.RFC3339), dash(e.Actor), term.Brief(e.Verb, longest), dash(e.Subject), count,
		term.Brief(e.Result, longest), dash(e.Reason),
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return term.Brief(s, longest)
}
