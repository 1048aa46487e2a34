package render

import (
	"github.com/strikesmq/strikes/ops"
)

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
