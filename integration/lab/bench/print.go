package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// print prints the ratios, the CPU time and the memory of a counter.
func (r *result) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, %s with %d CPUs; %d messages of %d bytes, prefetch %d; medians of %d rounds (%.0f s)\n\n",
		printable(r.Broker), printable(r.Store), r.Machine, r.CPUs, r.Messages, r.BodySize, r.Prefetch, r.Rounds, r.Seconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CONTEST\tQUEUE\tFAILING\tSTRIKES/s\tAGAINST\tITS/s\tRATIO\tROUNDS\tGOAL")
	for _, x := range r.Ratios {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.0f\t%s\t%.0f\t%.2f\t%.2f-%.2f\t%s\n", x.contest(), orDash(string(x.Queue)),
			percentage(x.Contest, x.Failing), x.OfRate, x.To, x.ToRate, x.Median, x.Least, x.Most, x.goal())
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

// printCosts prints the CPU time, as far as it is known.
func printCosts(w io.Writer, cases []*Case) error {
	cases = slices.DeleteFunc(slices.Clone(cases), func(c *Case) bool { return c.Cost == nil })
	if len(cases) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nCPU time of a message or a step, in µs:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CONTEST\tQUEUE\tFAILING\tCONTESTANT\tBROKER\tSTORE\tCLIENT\tALL")
	for _, c := range cases {
		x := c.Cost
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\n", c.Contest, orDash(string(c.Queue)),
			percentage(c.Contest, c.Failing),
			c.Name, x.Broker, x.Store, x.Client, x.Broker+x.Store+x.Client)
	}
	return t.Flush()
}

// contest names the contest, and the part of strikes that is compared in it.
func (r ratio) contest() string {
	name := r.Contest
	if r.Of != strikes {
		name += ": " + r.Of
	}
	if r.Unit == unitTime {
		name += ", time"
	}
	return name
}

func (r ratio) goal() string {
	if r.Goal == 0 {
		return "-"
	}
	sign, missed := ">=", ""
	if r.Unit == unitTime {
		sign = "<="
	}
	if !r.met() {
		missed = " missed"
	}
	return fmt.Sprintf("%s %.2f%s", sign, r.Goal, missed)
}

func percentage(contest string, percent int) string {
	if mayFail(contest) {
		return fmt.Sprintf("%d%%", percent)
	}
	return "-"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// printable leaves out the control characters of a server's text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}
