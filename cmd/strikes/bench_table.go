package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/bench"
)

// printBench prints the ratios, and what a counter takes.
func printBench(w io.Writer, r *bench.Result) error {
	fmt.Fprintf(w, "%s, %s, %s with %d CPUs; %d messages of %d bytes, prefetch %d; medians of %d rounds (%.0f s)\n\n",
		term.Printable(r.Broker, ""), term.Printable(r.Store, ""), r.Machine, r.CPUs, r.Messages, r.BodySize, r.Prefetch, r.Rounds, r.Seconds)
	t := term.NewTable(w)
	fmt.Fprintln(t, "CONTEST\tQUEUE\tFAILING\tSTRIKES/s\tAGAINST\tITS/s\tRATIO\tROUNDS\tGOAL")
	for _, x := range r.Ratios {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.0f\t%s\t%.0f\t%.2f\t%.2f-%.2f\t%s\n", ratioOf(x), orDash(string(x.Queue)),
			failing(x.Contest, x.Failing), x.OfRate, x.To, x.ToRate, x.Median, x.Least, x.Most, benchGoal(x))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := printCosts(w, r.Cases); err != nil {
		return err
	}
	for i, m := range r.Memory {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s: %.0f bytes a counter (%d counters)\n", m.What, m.Bytes, m.Counters)
	}
	return nil
}

// printCosts prints where the time went, as far as it is known.
func printCosts(w io.Writer, cases []*bench.Case) error {
	cases = slices.DeleteFunc(slices.Clone(cases), func(c *bench.Case) bool { return c.Cost == nil })
	if len(cases) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nCPU time of a message or a step, in µs:")
	t := term.NewTable(w)
	fmt.Fprintln(t, "CONTEST\tQUEUE\tFAILING\tCONTESTANT\tBROKER\tSTORE\tCLIENT\tALL")
	for _, c := range cases {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\n", c.Contest, orDash(string(c.Queue)), failing(c.Contest, c.Failing), c.Name,
			c.Cost.Broker, c.Cost.Store, c.Cost.Client, c.Cost.All())
	}
	return t.Flush()
}

// ratioOf names a contest, and in it what is compared if that is not all of strikes.
func ratioOf(x bench.Ratio) string {
	name := x.Contest
	if x.Of != bench.Strikes {
		name += ": " + x.Of
	}
	if x.Unit == bench.Time {
		name += ", time"
	}
	return name
}

func failing(contest string, percent int) string {
	if bench.MayFail(contest) {
		return fmt.Sprintf("%d%%", percent)
	}
	return "-"
}

func benchGoal(x bench.Ratio) string {
	sign, missed := ">=", ""
	if x.Goal == 0 {
		return "-"
	}
	if x.Unit == bench.Time {
		sign = "<="
	}
	if !x.Met() {
		missed = " missed"
	}
	return fmt.Sprintf("%s %.2f%s", sign, x.Goal, missed)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// benchProgress shows on a terminal how far a bench is, and is silent elsewhere.
type benchProgress struct {
	stderr io.Writer
	bar    *progressbar.ProgressBar
}

func newBenchProgress(stderr io.Writer) *benchProgress { return &benchProgress{stderr: stderr} }

func (p *benchProgress) show(done, all int, next string) {
	if !term.IsTerminal(p.stderr) {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions(all, progressbar.OptionSetWriter(p.stderr), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetWidth(20), progressbar.OptionClearOnFinish())
	}
	p.bar.Describe(next)
	_ = p.bar.Set(done) // it writes to a terminal, which may be gone
}

func (p *benchProgress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
