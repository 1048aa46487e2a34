package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

const row = "%-15s  %-7s  %4s  %5s  %8s  %9s  %9s  %10s  %10s  %-15s  %-18s  %-14s  %s\n"

func head(out io.Writer, c config, version string, kinds []string) {
	fmt.Fprintf(out, "RabbitMQ %s, seed %d, %d messages, %d faults of %s\n", version, c.seed, c.messages, c.faults, strings.Join(sorted(kinds), ", "))
	fmt.Fprintf(out, row, "WAY", "QUEUE", "LOST", "TWICE", "TOO-MANY", "TOO-EARLY", "INNOCENTS", "INVERSIONS", "REQUEUES/S", "DRAINED", "KILLER", "0% /s", "10% /s")
}

func notApplicable(out io.Writer, w *way, kind string) {
	fmt.Fprintf(out, "%-15s  %-7s  not applicable\n", w.name, kind)
}

// print prints a row. What is lost and who is innocent is of all parts.
func (c *cell) print(out io.Writer, w *way, kind string) {
	healthy, failing := "-", "-"
	if c.rates != nil {
		healthy = fmt.Sprintf("%.0f (%.2f)", c.rates.healthy, c.rates.ratio)
		failing = fmt.Sprintf("%.0f (%.2f)", c.rates.failing, c.rates.failingTo)
	}
	fmt.Fprintf(out, row, w.name, kind,
		sum(func(v *verdict) int { return v.lost }, c.faults, c.killer, c.order),
		sum(func(v *verdict) int { return v.twice }, c.faults),
		sum(func(v *verdict) int { return v.tooMany }, c.faults),
		sum(func(v *verdict) int { return v.tooEarly }, c.faults),
		sum(func(v *verdict) int { return v.innocents }, c.faults, c.killer, c.order),
		sum(func(v *verdict) int { return v.inversions }, c.order),
		sum(func(v *verdict) int { return v.requeues }, c.faults),
		drainTime(c.faults), killerEnd(c.killer), healthy, failing)
}

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
