package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
)

// text tells how a queue stands.
func (s standing) text() []term.Row {
	title := fmt.Sprintf("%s  %s in virtual host %s", s.Time.Format("15:04:05Z"), term.Shown(s.Queue), term.Shown(s.VHost))
	rows := []term.Row{{Text: title, Kind: term.Title}}
	rows = append(rows, s.flow()...)
	rows = append(rows, s.Undecodable.text(s.Time)...)
	if s.Limit != nil {
		rows = append(rows, term.Row{Text: "limit      " + term.Plural(s.Limit.MaxRetries, "retry") + ", set" + s.Limit.String()})
	}
	rows = append(rows, disagreement(s.Limits)...)
	rows = append(rows, s.blocked()...)
	rows = append(rows, s.Dead.text()...)
	for _, n := range s.Notes {
		rows = append(rows, term.Row{Text: "note       " + term.Printable(n, ""), Kind: term.Quiet})
	}
	return rows
}

func (s standing) flow() []term.Row {
	depth := fmt.Sprintf("depth      %d ready", s.Ready)
	if s.Unacked != nil {
		depth += fmt.Sprintf(", %d unacked", *s.Unacked)
	}
	consumers, kind := term.Plural(s.Consumers, "consumer"), term.Plain
	if s.Consumers == 0 {
		consumers, kind = "nobody consumes", term.Alarm
	}
	rows := []term.Row{{Text: depth + ", " + consumers, Kind: kind}}
	if s.Rates != nil {
		rows = append(rows, term.Row{Text: fmt.Sprintf("rates      %.1f/s in, %.1f/s out, %.1f/s acked", s.Rates.In, s.Rates.Out, s.Rates.Acked)})
	}
	return rows
}

func (s standing) blocked() []term.Row {
	if s.Blocked == 0 {
		return []term.Row{{Text: "blocking   nothing that has failed"}}
	}
	rows := []term.Row{{Text: "blocking   " + term.Plural(s.Blocked, "message"), Kind: term.Title}}
	for _, b := range s.Blocking {
		rows = append(rows, b.text(s.Time)...)
	}
	if more := s.Blocked - len(s.Blocking); more > 0 {
		rows = append(rows, term.Row{Text: fmt.Sprintf("  and %d more", more), Kind: term.Quiet})
	}
	return rows
}

func (b blocking) text(now time.Time) []term.Row {
	of := ""
	if b.Of > 0 {
		of = fmt.Sprintf(" of %d", b.Of)
	}
	parts := []string{fmt.Sprintf("attempt %d%s", b.Attempt, of), b.doing(now)}
	if b.Failures+b.Crashes > 0 {
		parts = append(parts, "failing for "+term.Rough(now.Sub(b.Since)))
	}
	if b.Suspect {
		parts = append(parts, "suspect")
	}
	rows := []term.Row{{Text: "  " + term.Shown(b.ID)}, {Text: "      " + strings.Join(parts, ", ")}}
	if b.LastError != "" {
		rows = append(rows, term.Row{Text: "      " + term.Brief(b.LastError, 200), Kind: term.Alarm})
	}
	if b.Holder != "" {
		rows = append(rows, term.Row{Text: "      " + b.with() + term.Brief(b.Holder, 80), Kind: term.Quiet})
	}
	return rows
}

// doing is what the message does now.
func (b blocking) doing(now time.Time) string {
	switch b.State {
	case blockRuns, blockRunsAlone:
		return b.State + " for " + term.Rough(now.Sub(b.Running))
	case blockWaits:
		return "next try in " + term.Rough(b.NextTry.Sub(now))
	case blockLeft:
		return "left running: its process died, or was cut off"
	case blockForgotten:
		return "not taken since: it waits for a consumer, or left the queue"
	}
	return "next try now"
}

func (b blocking) with() string {
	if b.State == blockRuns || b.State == blockRunsAlone {
		return "with "
	}
	return "last with "
}

// shownReasons is how many reasons are told of in a text.
const shownReasons = 5

func (d deadLetters) text() []term.Row {
	text := "dead       none"
	if d.Count > 0 {
		of := ""
		if d.Still != d.Count {
			of = fmt.Sprintf(" of %d", d.Count)
		}
		text = fmt.Sprintf("dead       %d%s since %s", d.Still, of, d.Since.Format("2006-01-02 15:04:05Z"))
	}
	rows := []term.Row{{Text: text}, {Text: "           " + d.holding}}
	if d.Missing > 0 {
		rows = append(rows, term.Row{Text: "missing    " + d.alarm, Kind: term.Alarm})
	}
	rows = append(rows, d.route()...)
	others := d.Others
	for _, r := range d.Reasons[min(shownReasons, len(d.Reasons)):] {
		others += r.Messages
	}
	for _, r := range d.Reasons[:min(shownReasons, len(d.Reasons))] {
		rows = append(rows, term.Row{Text: fmt.Sprintf("  %7d  %s", r.Messages, r.Reason)})
	}
	if others > 0 {
		rows = append(rows, term.Row{Text: fmt.Sprintf("  %7d  with other reasons", others), Kind: term.Quiet})
	}
	if d.Unknown > 0 {
		rows = append(rows, term.Row{Text: fmt.Sprintf("  %7d  without a known reason: the record expired, or was not read", d.Unknown), Kind: term.Quiet})
	}
	return rows
}
