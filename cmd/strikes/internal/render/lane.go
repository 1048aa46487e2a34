package render

import (
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

// Lanes returns a list of blocked lanes as a table, or as JSON lines.
func Lanes(w io.Writer, asJSON bool) List[counter.BlockedLane] {
	if asJSON {
		return newLines(w, func(l counter.BlockedLane) any {
			row := map[string]any{"lane": l.Lane, "by": l.By, "since": l.Since, "messages": l.Messages}
			if !utf8.ValidString(l.Lane) {
				row["lane_base64"] = []byte(l.Lane)
			}
			return row
		})
	}
	return table[counter.BlockedLane]{term.NewTable(w,
		term.Column{Title: "LANE", Min: leastReason}, term.Column{Title: "BLOCKED BY", Min: leastReason},
		term.Column{Title: "SINCE"}, term.Column{Title: "MESSAGES"},
	), laneCells}
}

func laneCells(l counter.BlockedLane) []string {
	return []string{term.Shown(l.Lane), dash(l.By), l.Since.Format(time.RFC3339), fmt.Sprint(l.Messages)}
}
