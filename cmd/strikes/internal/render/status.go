package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/ops"
)

// Status is a status as text.
func Status(s ops.Status) []term.Row {
	title := fmt.Sprintf("%s  %s in virtual host %s", s.Time.Format(time.RFC3339), term.Shown(s.Queue),
		term.Shown(s.VHost))
	rows := []term.Row{{Text: title, Kind: term.Title}}
	rows = append(rows, flow(s)...)
	rows = append(rows, partitions(s.Partitions)...)
	if s.Paused != nil {
		rows = append(rows, paused(s)...)
	}
	if b := s.Breaker; b != nil {
		rows = append(rows, term.Row{Text: "breaker    " + b.Text(s.Time), Kind: term.Alarm})
		if b.Stops() {
			rows = append(rows, term.Row{Text: "           strikes resume " + shell.Operands(s.Queue) +
				" lets all go on at once; a success does too"})
		}
	}
	if s.Undecodable != "" {
		name := shell.Operands(s.Queue)
		rows = append(rows,
			term.Row{Text: "undecoded  " + undecodable + ": " + term.Brief(s.Undecodable, 300), Kind: term.Alarm},
			term.Row{Text: "           stop the consumers, and strikes dead drop " + name + " --dead-letter-queue " + name +
				" --undecodable --to FILE"})
	}
	if s.Limit != nil {
		rows = append(rows, term.Row{Text: "limit      " + Limit(*s.Limit)})
	}
	if len(s.Limits) > 0 {
		rows = append(rows, term.Row{Text: "limit      " + term.Printable(disagreement(s.Limits), ""), Kind: term.Alarm})
	}
	rows = append(rows, blocked(s)...)
	rows = append(rows, waiting(s)...)
	if s.BlockedLanes > 0 {
		text := fmt.Sprintf("lanes      %d blocked; strikes lane list %s shows what blocks them", s.BlockedLanes,
			shell.Operands(s.Queue))
		rows = append(rows, term.Row{Text: text, Kind: term.Alarm})
	}
	rows = append(rows, deadLetters(s.Dead)...)
	rows = append(rows, found(s)...)
	rows = append(rows, delayQueues(s.DelayQueues)...)
	for _, n := range s.Notes {
		rows = append(rows, term.Row{Text: "note       " + term.Printable(n, ""), Kind: term.Quiet})
	}
	return rows
}

func paused(s ops.Status) []term.Row {
	text := "paused    " + s.Paused.Text()
	if s.Holding == nil || !s.Holding.Only {
		text += "; strikes resume ends it"
	}
	rows := []term.Row{{Text: text, Kind: term.Alarm}}
	if s.Holding == nil {
		return rows
	}
	id, queue := shell.Word(s.Holding.ID), shell.Operands(s.Queue)
	return append(rows,
		term.Row{Text: fmt.Sprintf("blocked by %s for %s: exhausted, %s", term.Shown(s.Holding.ID),
			term.Rough(s.Time.Sub(s.Holding.Since)), term.Brief(string(s.Holding.Cause), 40)), Kind: term.Alarm},
		term.Row{Text: "           strikes limit set --id " + id + " --max-retries N --why TEXT " + queue +
			" lets it fail again"},
		term.Row{Text: "           strikes skip --why TEXT " + shell.Operands(s.Queue, s.Holding.ID) + " dead-letters it"},
		term.Row{Text: "           strikes counter reset --why TEXT " + shell.Operands(s.Queue, s.Holding.ID) +
			" gives it all its attempts again"})
}

func flow(s ops.Status) []term.Row {
	depth := fmt.Sprintf("depth      %d ready", s.Ready)
	if s.Unacked != nil {
		depth += fmt.Sprintf(", %d unacked", *s.Unacked)
	}
	consumers, kind := printable.Plural(s.Consumers, "consumer"), term.Plain
	if s.Consumers == 0 {
		consumers, kind = "no consumer", term.Alarm
	}
	rows := []term.Row{{Text: depth + ", " + consumers, Kind: kind}}
	if s.Rates != nil {
		rows = append(rows, term.Row{Text: fmt.Sprintf("rates      %.1f/s in, %.1f/s out, %.1f/s acked", s.Rates.In,
			s.Rates.Out, s.Rates.Acked)})
	}
	if s.Unacked != nil || s.Rates != nil { // it does not say when it measured them
		rows = append(rows, term.Row{Text: "           unacked and rates by the management API, as of up to 10 s ago",
			Kind: term.Quiet})
	}
	return rows
}

// partitions sums up the partitions, and names those that nothing consumes.
func partitions(all []ops.Partition) (rows []term.Row) {
	if len(all) == 0 {
		return nil
	}
	of, idle := map[string]bool{}, []string{}
	for _, p := range all {
		switch {
		case p.Missing:
			text := "           " + term.Shown(p.Queue) + " does not exist; strikes doctor says what to do"
			rows = append(rows, term.Row{Text: text, Kind: term.Alarm})
		case p.Consumers == 0:
			idle = append(idle, term.Shown(p.Queue))
		}
		if p.Process != "" {
			of[p.Process] = true
		}
	}
	if len(idle) > 0 && len(idle) < len(all) {
		rows = append(rows, term.Row{Text: "           no consumer: " + strings.Join(idle, ", "), Kind: term.Alarm})
	}
	sum := fmt.Sprintf("partitions %d, dealt to %s", len(all), printable.Plural(len(of), "process"))
	return append([]term.Row{{Text: sum}}, rows...)
}

// Partitions is a line for each partition.
func Partitions(s ops.Status) (rows []term.Row) {
	for _, p := range s.Partitions {
		parts := []string{fmt.Sprintf("  %s  %d ready", term.Shown(p.Queue), p.Ready)}
		if p.Unacked != nil {
			parts = append(parts, fmt.Sprintf("%d unacked", *p.Unacked))
		}
		process := "no process"
		if p.Process != "" {
			process = term.Shown(p.Process)
		}
		parts = append(parts, printable.Plural(p.Consumers, "consumer"), process)
		if !p.BlockedSince.IsZero() {
			parts = append(parts, fmt.Sprintf("%s, one for %s", printable.Plural(p.BlockedLanes, "blocked lane"),
				term.Rough(s.Time.Sub(p.BlockedSince))))
		}
		rows = append(rows, term.Row{Text: strings.Join(parts, ", ")})
	}
	return rows
}

func blocked(s ops.Status) []term.Row {
	if s.Blocked == 0 {
		return []term.Row{{Text: "retrying   no message"}}
	}
	rows := []term.Row{{Text: "retrying   " + printable.Plural(s.Blocked, "message"), Kind: term.Title}}
	for _, m := range s.Blocking {
		rows = append(rows, blockingText(m, s.Time)...)
	}
	if more := s.Blocked - len(s.Blocking); more > 0 {
		rows = append(rows, term.Row{Text: fmt.Sprintf("  and %d more", more), Kind: term.Quiet})
	}
	return rows
}

// waiting shows messages that may have no record.
func waiting(s ops.Status) (rows []term.Row) {
	for _, w := range s.Waits() {
		where := printable.Plural(len(w.Consumers), "process")
		if len(w.Consumers) == 1 {
			where = term.Brief(w.Consumers[0], 80)
		}
		text := fmt.Sprintf("waiting    %s for %s in %s: their attempts are not counted", printable.Plural(w.Messages,
			"message"), term.Rough(s.Time.Sub(w.Since)), where)
		rows = append(rows, term.Row{Text: text, Kind: term.Alarm})
		if w.Why != "" {
			rows = append(rows, term.Row{Text: "      " + term.Brief(w.Why, 200), Kind: term.Alarm})
		}
	}
	return rows
}

func blockingText(m ops.Message, now time.Time) []term.Row {
	parts := []string{m.Which(), m.Doing(now)}
	if m.Failures+m.Crashes > 0 {
		parts = append(parts, "failing for "+term.Rough(now.Sub(m.Since)))
	}
	if m.Suspect {
		parts = append(parts, "suspect")
	}
	if m.Skipped {
		parts = append(parts, "skipped: dead-lettered at its next step")
	}
	if m.Duplicate {
		parts = append(parts, "possible duplicate")
	}
	rows := []term.Row{{Text: "  " + term.Shown(m.ID)}, {Text: "      " + strings.Join(parts, ", ")}}
	if m.LastError != "" {
		rows = append(rows, term.Row{Text: "      " + term.Brief(m.LastError, 200), Kind: term.Alarm})
	}
	if m.Consumer != "" {
		with := "last with "
		if m.Runs() {
			with = "with "
		}
		rows = append(rows, term.Row{Text: "      " + with + term.Brief(m.Consumer, 80), Kind: term.Quiet})
	}
	return rows
}

// found shows the errors of the doctor.
func found(s ops.Status) (rows []term.Row) {
	for _, f := range s.Findings {
		text := fmt.Sprintf("%-10s %s: %s; %s", f.Severity, f.Code, f.Seen, f.Impact)
		rows = append(rows, term.Row{Text: term.Printable(text, ""), Kind: term.Alarm})
	}
	if len(rows) > 0 {
		rows = append(rows, term.Row{Text: "           strikes doctor " + shell.Operands(s.Queue) + " says how to fix it",
			Kind: term.Quiet})
	}
	return rows
}

// shownReasons is how many reasons a text lists.
const shownReasons = 5

func deadLetters(d ops.DeadLetters) []term.Row {
	text := "dead       none"
	if d.Count > 0 {
		of := ""
		if d.Still != d.Count {
			of = fmt.Sprintf(" of %d", d.Count)
		}
		text = fmt.Sprintf("dead       %d%s since %s", d.Still, of, d.Since.Format(time.RFC3339))
	}
	rows := []term.Row{{Text: text}, {Text: "           " + d.Holding()}}
	if d.Missing > 0 {
		rows = append(rows, term.Row{Text: "missing    " + d.Lost(), Kind: term.Alarm},
			term.Row{Text: "           strikes counter reset QUEUE ID --why TEXT accepts that one is gone; else it is missing " +
				"until its record expires", Kind: term.Quiet})
	}
	if d.Waiting > 0 {
		rows = append(rows, term.Row{Text: "           the broker retries what waits about every 3 minutes",
			Kind: term.Quiet})
	}
	return append(rows, reasons(d)...)
}

func reasons(d ops.DeadLetters) (rows []term.Row) {
	others := d.Others
	for i, r := range d.Reasons {
		if i < shownReasons {
			rows = append(rows, term.Row{Text: fmt.Sprintf("  %7d  %s", r.Messages, printable.Why(r.Reason, longest))})
		} else {
			others += r.Messages
		}
	}
	if others > 0 {
		rows = append(rows, term.Row{Text: fmt.Sprintf("  %7d  with other reasons", others), Kind: term.Quiet})
	}
	if d.Unknown > 0 {
		rows = append(rows, term.Row{Text: fmt.Sprintf("  %7d  without a known reason: the record was not read", d.Unknown),
			Kind: term.Quiet})
	}
	return rows
}

// undecodable is the fact about a queue whose consumers noted such a message.
const undecodable = "a message ends every session that receives it"

// disagreement says which limits the consumers of one queue have. It is not
// escaped.
func disagreement(seen []doctor.ConsumerLimit) string {
	return "consumers of one queue have different limits: " + doctor.LimitsText(seen)
}
