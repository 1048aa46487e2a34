package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"
)

// row is a line of text on a terminal, and what it is.
type row struct {
	text string
	kind rowKind
}

type rowKind int

const (
	rowPlain rowKind = iota
	rowTitle
	rowQuiet // of less importance
	rowAlarm
)

// sgr are the escape sequences that show a kind of row.
var sgr = map[rowKind]string{rowTitle: "\x1b[1m", rowQuiet: "\x1b[2m", rowAlarm: "\x1b[31m"}

// print returns the row cut to a width (0: not cut), with or without color.
func (r row) print(width int, color bool) string {
	text := fit(r.text, width)
	if on := sgr[r.kind]; color && on != "" {
		return on + text + "\x1b[0m"
	}
	return text
}

// fit cuts a text to so many columns; some characters take two.
func fit(text string, width int) string {
	if width <= 0 || uniseg.StringWidth(text) <= width {
		return text
	}
	var b strings.Builder
	left, state, rest := width-1, -1, text
	for rest != "" {
		var cluster string
		var columns int
		cluster, rest, columns, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if left -= columns; left < 0 {
			break
		}
		b.WriteString(cluster)
	}
	return b.String() + "…"
}

// text tells how a queue stands.
func (s standing) text() []row {
	title := fmt.Sprintf("%s  %s in virtual host %s", s.Time.Format("15:04:05Z"), shown(s.Queue), shown(s.VHost))
	rows := []row{{title, rowTitle}}
	rows = append(rows, s.flow()...)
	rows = append(rows, s.Undecodable.text(s.Time)...)
	if s.Limit != nil {
		rows = append(rows, row{text: "limit      " + plural(s.Limit.MaxRetries, "retry") + ", set" + s.Limit.String()})
	}
	rows = append(rows, disagreement(s.Limits)...)
	rows = append(rows, s.blocked()...)
	rows = append(rows, s.Dead.text()...)
	for _, n := range s.Notes {
		rows = append(rows, row{"note       " + printable(n, ""), rowQuiet})
	}
	return rows
}

func (s standing) flow() []row {
	depth := fmt.Sprintf("depth      %d ready", s.Ready)
	if s.Unacked != nil {
		depth += fmt.Sprintf(", %d unacked", *s.Unacked)
	}
	consumers, kind := plural(s.Consumers, "consumer"), rowPlain
	if s.Consumers == 0 {
		consumers, kind = "nobody consumes", rowAlarm
	}
	rows := []row{{depth + ", " + consumers, kind}}
	if s.Rates != nil {
		rows = append(rows, row{text: fmt.Sprintf("rates      %.1f/s in, %.1f/s out, %.1f/s acked", s.Rates.In, s.Rates.Out, s.Rates.Acked)})
	}
	return rows
}

func (s standing) blocked() []row {
	if s.Blocked == 0 {
		return []row{{text: "blocking   nothing that has failed"}}
	}
	rows := []row{{"blocking   " + plural(s.Blocked, "message"), rowTitle}}
	for _, b := range s.Blocking {
		rows = append(rows, b.text(s.Time)...)
	}
	if more := s.Blocked - len(s.Blocking); more > 0 {
		rows = append(rows, row{fmt.Sprintf("  and %d more", more), rowQuiet})
	}
	return rows
}

func (b blocking) text(now time.Time) []row {
	of := ""
	if b.Of > 0 {
		of = fmt.Sprintf(" of %d", b.Of)
	}
	parts := []string{fmt.Sprintf("attempt %d%s", b.Attempt, of), b.doing(now)}
	if b.Failures+b.Crashes > 0 {
		parts = append(parts, "failing for "+rough(now.Sub(b.Since)))
	}
	if b.Suspect {
		parts = append(parts, "suspect")
	}
	rows := []row{{text: "  " + shown(b.ID)}, {text: "      " + strings.Join(parts, ", ")}}
	if b.LastError != "" {
		rows = append(rows, row{"      " + brief(b.LastError, 200), rowAlarm})
	}
	if b.Holder != "" {
		rows = append(rows, row{"      " + b.with() + brief(b.Holder, 80), rowQuiet})
	}
	return rows
}

// doing is what the message does now.
func (b blocking) doing(now time.Time) string {
	switch b.State {
	case blockRuns, blockRunsAlone:
		return b.State + " for " + rough(now.Sub(b.Running))
	case blockWaits:
		return "next try in " + rough(b.NextTry.Sub(now))
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

func (d deadLetters) text() []row {
	text := "dead       none"
	if d.Count > 0 {
		of := ""
		if d.Still != d.Count {
			of = fmt.Sprintf(" of %d", d.Count)
		}
		text = fmt.Sprintf("dead       %d%s since %s", d.Still, of, d.Since.Format("2006-01-02 15:04:05Z"))
	}
	rows := []row{{text: text}, {text: "           " + d.holding}}
	if d.Missing > 0 {
		rows = append(rows, row{"missing    " + d.alarm, rowAlarm})
	}
	rows = append(rows, d.route()...)
	others := d.Others
	for _, r := range d.Reasons[min(shownReasons, len(d.Reasons)):] {
		others += r.Messages
	}
	for _, r := range d.Reasons[:min(shownReasons, len(d.Reasons))] {
		rows = append(rows, row{text: fmt.Sprintf("  %7d  %s", r.Messages, r.Reason)})
	}
	if others > 0 {
		rows = append(rows, row{fmt.Sprintf("  %7d  with other reasons", others), rowQuiet})
	}
	if d.Unknown > 0 {
		rows = append(rows, row{fmt.Sprintf("  %7d  without a known reason: the record expired, or was not read", d.Unknown), rowQuiet})
	}
	return rows
}

// fitted prints rows for a width, and leaves out what does not fit into a height (0: nothing).
func fitted(rows []row, width, height int, color bool) []string {
	if height > 0 && len(rows) > height {
		left := len(rows) - height + 1
		rows = append(slices.Clone(rows[:height-1]), row{fmt.Sprintf("… %d lines more", left), rowQuiet})
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.print(width, color)
	}
	return out
}
