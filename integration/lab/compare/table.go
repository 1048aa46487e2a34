package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/integration/lab/ways"
)

// column is a figure of the verdicts of some parts.
type column struct {
	title string
	width int // negative: flush left
	parts []string
	value func([]*verdict) string
}

var (
	mostly  = []string{underFaults, withKiller, inOrder} // in an outage healthy messages fail
	faulty  = []string{underFaults}
	ordered = []string{inOrder}
	killing = []string{withKiller}
	away    = []string{outage}
)

var columns = []column{
	{"LOST", 4, allParts, sum(func(v *verdict) int { return v.lost })},
	{"TWICE", 5, faulty, sum(func(v *verdict) int { return v.twice })},
	{"TOO-MANY", 8, faulty, sum(func(v *verdict) int { return v.tooMany })},
	{"TOO-EARLY", 9, faulty, sum(func(v *verdict) int { return v.tooEarly })},
	{"INNOCENTS", 9, mostly, sum(func(v *verdict) int { return v.innocents })},
	{"INVERSIONS", 10, ordered, sum(func(v *verdict) int { return v.inversions })},
	{"REQUEUES/S", 10, faulty, sum(func(v *verdict) int { return v.requeues })},
	{"DRAINED", -15, faulty, of(drainTime)},
	{"KILLER", -18, killing, of(killerEnd)},
	{"GOOD-DEAD", 12, away, of(func(v *verdict) string { return fmt.Sprintf("%d of %d", v.innocents, v.good) })},
	{"ATTEMPTS", 8, away, sum(func(v *verdict) int { return v.attempts })},
	{"RESUMED", -12, away, of(resumption)},
}

// sum adds up a figure.
func sum(figure func(*verdict) int) func([]*verdict) string {
	return func(all []*verdict) string {
		n := 0
		for _, v := range all {
			n += figure(v)
		}
		return fmt.Sprint(n)
	}
}

// of writes a figure of one part.
func of(text func(*verdict) string) func([]*verdict) string {
	return func(all []*verdict) string { return text(all[0]) }
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

// print writes the row of a cell. A column whose parts were not run has none of them in the cell, and is not shown.
func (c cell) print(out io.Writer, shown []column, w *ways.Way, kind string) {
	row(out, w.Name, kind, shown, func(of column) string {
		var run []*verdict
		for _, name := range of.parts {
			if v := c[name]; v != nil {
				run = append(run, v)
			}
		}
		return of.value(run)
	})
}

func drainTime(v *verdict) string {
	if v.drained {
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
	if v.killerDead {
		return fmt.Sprintf("ended after %d", v.killed)
	}
	return fmt.Sprintf("%d, %d left", v.killed, v.left)
}
