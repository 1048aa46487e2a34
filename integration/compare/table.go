package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// column is a figure of some parts.
type column struct {
	title string
	width int // negative: flush left
	parts []string
	value func(*cell) string
}

// What is lost and who is innocent is of all parts with faults.
var columns = []column{
	{"LOST", 4, []string{inOrder, withKiller, underFaults}, func(c *cell) string {
		return sum(func(v *verdict) int { return v.lost }, c.faults, c.killer, c.order)
	}},
	{"TWICE", 5, []string{underFaults}, func(c *cell) string {
		return sum(func(v *verdict) int { return v.twice }, c.faults)
	}},
	{"COPIES", 6, []string{underFaults}, func(c *cell) string {
		return sum(func(v *verdict) int { return v.copies }, c.faults)
	}},
	{"TOO-MANY", 8, []string{underFaults}, func(c *cell) string {
		return sum(func(v *verdict) int { return v.tooMany }, c.faults)
	}},
	{"TOO-EARLY", 9, []string{underFaults}, func(c *cell) string {
		return sum(func(v *verdict) int { return v.tooEarly }, c.faults)
	}},
	{"INNOCENTS", 9, []string{inOrder, withKiller, underFaults}, func(c *cell) string {
		return sum(func(v *verdict) int { return v.innocents }, c.faults, c.killer, c.order)
	}},
	{"INVERSIONS", 10, []string{inOrder}, func(c *cell) string {
		return sum(func(v *verdict) int { return v.inversions }, c.order)
	}},
	{"REQUEUES/S", 10, []string{underFaults}, func(c *cell) string {
		return sum(func(v *verdict) int { return v.requeues }, c.faults)
	}},
	{"DRAINED", -15, []string{underFaults}, func(c *cell) string { return drainTime(c.faults) }},
	{"KILLER", -18, []string{withKiller}, func(c *cell) string { return killerEnd(c.killer) }},
	{"0% /S", -14, []string{speed}, func(c *cell) string { return rate(c.rates.healthy, c.rates.ratio) }},
	{"10% /S", -14, []string{speed}, func(c *cell) string { return rate(c.rates.failing, c.rates.failingTo) }},
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

func head(out io.Writer, c config, version string, kinds []string) {
	first := fmt.Sprintf("RabbitMQ %s, seed %d", version, c.seed)
	if slices.Contains(c.parts, underFaults) {
		first += fmt.Sprintf(", %d messages, %d faults of %s", c.messages, c.faults, strings.Join(sorted(kinds), ", "))
	}
	fmt.Fprintln(out, first)
	row(out, "WAY", "QUEUE", c.shown(), func(of column) string { return of.title })
}

func row(out io.Writer, name, kind string, of []column, text func(column) string) {
	line := fmt.Sprintf("%-15s  %-7s", name, kind)
	for _, c := range of {
		line += fmt.Sprintf("  %*s", c.width, text(c))
	}
	fmt.Fprintln(out, strings.TrimRight(line, " "))
}

func notApplicable(out io.Writer, w *way, kind string) {
	fmt.Fprintf(out, "%-15s  %-7s  not applicable\n", w.name, kind)
}

func (c *cell) print(out io.Writer, of []column, w *way, kind string) {
	row(out, w.name, kind, of, func(of column) string { return of.value(c) })
}

func rate(perSecond, ratio float64) string { return fmt.Sprintf("%.0f (%.2f)", perSecond, ratio) }

// sum adds up a figure of the parts that were run.
func sum(figure func(*verdict) int, of ...*verdict) string {
	n, ran := 0, false
	for _, v := range of {
		if v != nil {
			n, ran = n+figure(v), true
		}
	}
	if !ran {
		return "-"
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

func killerEnd(v *verdict) string {
	switch {
	case v == nil:
		return "-"
	case v.killerDead:
		return fmt.Sprintf("ended after %d", v.killed)
	}
	return fmt.Sprintf("%d, %d left", v.killed, v.left)
}

// sorted names each kind once.
func sorted(kinds []string) []string { return slices.Compact(slices.Sorted(slices.Values(kinds))) }
