package render

import (
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/ops"
)

// Lanes returns a list of blocked lanes as a table, or as JSON lines.
func Lanes(w io.Writer, asJSON bool) List[ops.BlockedLane] {
	if asJSON {
		return newLines(w, func(l ops.BlockedLane) any {
			row := map[string]any{"queue": l.Queue, "lane": l.Lane, "by": l.By, "since": l.Since, "messages": l.Messages}
			if !utf8.ValidString(l.Lane) {
				row["lane_base64"] = []byte(l.Lane)
			}
			return row
		})
	}
	return table[ops.BlockedLane]{term.NewTable(w,
		term.Column{Title: "LANE", Min: leastReason}, term.Column{Title: "BLOCKED BY", Min: leastReason},
		term.Column{Title: "SINCE"}, term.Column{Title: "MESSAGES"},
	), laneCells}
}

func laneCells(l ops.BlockedLane) []string {
	return []string{term.Shown(l.Lane), dash(l.By), l.Since.Format(time.RFC3339), fmt.Sprint(l.Messages)}
}
