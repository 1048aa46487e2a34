package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
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

func overviewRow(s ops.Summary, o ops.Overview) []string {
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
		overviewNote(s, o),
	}
}

// known is a number that may not be known.
func known(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

// overviewNote has the facts about a queue that its figures do not show.
func overviewNote(s ops.Summary, o ops.Overview) string {
	var notes []string
	for _, f := range s.Findings {
		notes = append(notes, printable.Line(f.Seen, 200))
	}
	if s.DeadLettersOf != "" {
		notes = append(notes, "takes the dead letters of "+printable.Name(s.DeadLettersOf)+", which does not exist")
	}
	if s.Unknown != "" {
		notes = append(notes, "not known: strikes status "+shell.Operands(s.Queue)+" says why")
	}
	if s.Undecodable != "" {
		notes = append(notes, undecodable)
	}
	said := "" // a reason that a note gives already
	if b := s.Breaker; b != nil {
		notes, said = append(notes, progress(b, o)), b.Reason
	}
	switch {
	case s.Paused != nil:
		notes = append(notes, "paused for "+printable.Rough(o.Time.Sub(s.Paused.At))+s.Paused.ByAndWhy())
	case s.Unattended() > 0:
		notes = append(notes, "no consumer")
	}
	if s.Silent > 0 {
		notes = append(notes, printable.Plural(s.Silent, "silent process"))
	}
	if s.BlockedLanes > 0 {
		notes = append(notes, fmt.Sprintf("%s, %s", printable.Plural(s.BlockedLanes, "blocked lane"),
			printable.Plural(int(s.Dead.Blocked), "blocked message")))
	}
	if n := s.Dead.Unrecorded; n > 0 {
		notes = append(notes, printable.Plural(int(n), "dead letter")+" not known to the store")
	}
	if m := s.Head; m != nil && m.State != ops.Forgotten {
		notes = append(notes, printable.Name(m.ID)+": "+m.Which())
		if m.LastError != "" && m.LastError != said {
			notes = append(notes, printable.Line(m.LastError, 60))
		}
	}
	if h := s.Waiting; h != nil {
		note := fmt.Sprintf("%s waiting for %s, not counted", printable.Plural(h.Messages, "message"),
			printable.Rough(o.Time.Sub(h.Since)))
		if h.Why != "" && h.Why != said {
			note += ": " + printable.Line(h.Why, 200)
		}
		notes = append(notes, note)
	}
	if s.Forgotten > 0 {
		notes = append(notes, fmt.Sprintf("%d forgotten", s.Forgotten))
	}
	if s.Sharing > 0 {
		notes = append(notes, "shares its dead-letter queue with "+printable.Plural(s.Sharing, "queue"))
	}
	if s.Partial {
		notes = append(notes, "not all records were read")
	}
	return strings.Join(notes, "; ")
}

// progress says that no message succeeds, the reason first, because a narrow terminal cuts the note.
func progress(b *ops.Breaker, o ops.Overview) string {
	if !b.Stops() {
		return b.Text(o.Time)
	}
	text := "no progress"
	if b.Reason != "" {
		text += ": " + printable.Line(b.Reason, 60)
	}
	return fmt.Sprintf("%s; %s failed, none succeeded, nothing is counted", text, printable.Plural(b.Failed, "message"))
}
