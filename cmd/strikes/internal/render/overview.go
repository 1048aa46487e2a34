package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// Overview writes a table of queues, most of them at most (0: all).
func Overview(w io.Writer, o ops.Overview, most int) error {
	if len(o.Queues) == 0 {
		_, err := fmt.Fprintf(w, "no queues in virtual host %s\n", printable.Name(o.VHost))
		return err
	}
	table := term.NewTable(w, "QUEUE", "BLOCKED", "FAILING", "DEAD", "SINCE", "MISSING", "CONSUMERS", "READY", "NOTE")
	shown := o.Queues
	if most > 0 {
		shown = shown[:min(most, len(shown))]
	}
	for _, s := range shown {
		if err := table.Row(overviewRow(s, o)...); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var after page
	if more := len(o.Queues) - len(shown); more > 0 {
		after.add("and %d more", more)
	}
	if o.Broker == nil && len(shown) > 0 {
		after.add("consumers and ready messages are up to 10 s old; strikes status QUEUE reads them now")
	}
	for _, f := range o.Alarms {
		after.add("%s: %s; %s", f.Code, printable.Line(f.Seen, 200), f.Impact)
	}
	after.delayQueues(o.DelayQueues)
	_, err := io.WriteString(w, after.String())
	return err
}

func overviewRow(s ops.Status, o ops.Overview) []string {
	var notes []string
	for _, fact := range s.Facts(o.Time) {
		notes = append(notes, fact.Text)
	}
	blocked, since, missing := "-", "-", "-"
	if long := max(s.Blocked, s.Stopped); long > 0 {
		blocked = printable.Rough(long)
	}
	retrying, dead := new(s.Failing()), new(int(s.Dead.Still))
	if s.Unknown != "" || o.Store != nil {
		retrying, dead = nil, nil
	}
	if s.Dead.Still > 0 && s.Dead.Still == s.Dead.Count { // else Since may be of a message that was replayed
		since = s.Dead.Since.Format(time.RFC3339)
	}
	if s.Dead.Holds != nil { // else nothing is dead, or the dead-letter queue was not seen
		missing = strconv.FormatInt(s.Dead.Missing, 10)
	}
	return []string{
		printable.Name(s.Queue), blocked, known(retrying), known(dead), since, missing, known(s.Consumers), known(s.Ready),
		strings.Join(notes, "; "),
	}
}

func known(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}
