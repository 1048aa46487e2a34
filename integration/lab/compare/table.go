package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/integration/lab/ways"
)

// column is a figure of some parts.
type column struct {
	title string
	width int // negative: flush left
	parts []string
	value func(cell) string
}

// LOST adds up all parts with faults, and INNOCENTS all but the outage.
var columns = []column{
	{"LOST", 4, []string{inOrder, withKiller, underFaults, outage}, func(c cell) string {
		return sum(func(v *verdict) int { return v.lost }, c.of(underFaults, withKiller, inOrder, outage))
	}},
	{"TWICE", 5, []string{underFaults}, func(c cell) string {
		return sum(func(v *verdict) int { return v.twice }, c.of(underFaults))
	}},
	{"COPIES", 6, []string{underFaults}, func(c cell) string {
		return sum(func(v *verdict) int { return v.copies }, c.of(underFaults))
	}},
	{"TOO-MANY", 8, []string{underFaults}, func(c cell) string {
		return sum(func(v *verdict) int { return v.tooMany }, c.of(underFaults))
	}},
	{"TOO-EARLY", 9, []string{underFaults}, func(c cell) string {
		return sum(func(v *verdict) int { return v.tooEarly }, c.of(underFaults))
	}},
	{"INNOCENTS", 9, []string{inOrder, withKiller, underFaults}, func(c cell) string {
		return sum(func(v *verdict) int { return v.innocents }, c.of(underFaults, withKiller, inOrder))
	}},
	{"INVERSIONS", 10, []string{inOrder}, func(c cell) string {
		return sum(func(v *verdict) int { return v.inversions }, c.of(inOrder))
	}},
	{"REQUEUES/S", 10, []string{underFaults}, func(c cell) string {
		return sum(func(v *verdict) int { return v.requeues }, c.of(underFaults))
	}},
	{"DRAINED", -15, []string{underFaults}, func(c cell) string { return drainTime(c[underFaults]) }},
	{"KILLER", -18, []string{withKiller}, func(c cell) string { return killerEnd(c[withKiller]) }},
	{"GOOD-DEAD", 12, []string{outage}, func(c cell) string {
		v := c[outage]
		return fmt.Sprintf("%d of %d", v.innocents, v.good)
	}},
	{"ATTEMPTS", 8, []string{outage}, func(c cell) string {
		return sum(func(v *verdict) int { return v.attempts }, c.of(outage))
	}},
	{"RESUMED", -12, []string{outage}, func(c cell) string { return resumption(c[outage]) }},
}

// shown returns the columns of the parts that are run.
func (c config) shown() (shown []column) {
	for _, of := range columns {
		if slices.ContainsFunc(of.parts, func(part string) bool { return slices.Contains(c.parts, part) }) {
			shown = append(shown, of)
		}
	}
	return shown
}

func (l *lab) head(out io.Writer) {
	first := fmt.Sprintf("RabbitMQ %s, seed %d", l.broker.Version, l.seed)
	if slices.Contains(l.parts, underFaults) {
		var names []string
		for _, k := range l.kinds {
			names = append(names, k.Name)
		}
		names = slices.Compact(slices.Sorted(slices.Values(names)))
		first += fmt.Sprintf(", %d messages, %d faults of %s", l.messages, l.faults, strings.Join(names, ", "))
	}
	if slices.Contains(l.parts, outage) {
		first += fmt.Sprintf(", the dependency away for %v", l.away)
	}
	fmt.Fprintln(out, first)
	row(out, "WAY", "QUEUE", l.shown(), func(of column) string { return of.title })
}

func row(out io.Writer, name, kind string, of []column, text func(column) string) {
	line := fmt.Sprintf("%-15s  %-7s", name, kind)
	for _, c := range of {
		line += fmt.Sprintf("  %*s", c.width, text(c))
	}
	fmt.Fprintln(out, strings.TrimRight(line, " "))
}

func notApplicable(out io.Writer, w *ways.Way, kind string) {
	fmt.Fprintf(out, "%-15s  %-7s  not applicable\n", w.Name, kind)
}

func (c cell) print(out io.Writer, of []column, w *ways.Way, kind string) {
	row(out, w.Name, kind, of, func(of column) string { return of.value(c) })
}

// of returns the verdicts of the parts that were run.
func (c cell) of(parts ...string) (all []*verdict) {
	for _, name := range parts {
		if v := c[name]; v != nil {
			all = append(all, v)
		}
	}
	return all
}

// sum adds up a figure.
func sum(figure func(*verdict) int, of []*verdict) string {
	if len(of) == 0 {
		return "-"
	}
	n := 0
	for _, v := range of {
		n += figure(v)
	}
	return fmt.Sprint(n)
}

func drainTime(v *verdict) string {
	switch {
	case v == nil:
		return "-"
	case v.drained:
		return fmt.Sprintf("%.1f s", v.took.Seconds())
	}
	return fmt.Sprintf("never: %d left", v.left)
}

// resumption says when the first process went on, and when the last one did.
func resumption(v *verdict) string {
	if !v.goesOn {
		return "no success"
	}
	return fmt.Sprintf("%.1f / %.1f s", v.resumed.Seconds(), v.resumedAll.Seconds())
}

func killerEnd(v *verdict) string {
	switch {
	case v == nil:
		return "-"
	case v.killerDead:
		return fmt.Sprintf("ended after %d", v.killed)
	}
	return fmt.Sprintf("%d, %d left", v.killed, v.left)
}
