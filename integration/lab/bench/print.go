package bench

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"

	"github.com/strikesmq/strikes/internal/printable"
)

// print prints the ratios and the CPU time.
func (r *result) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, %s with %d CPUs; %d messages of %d bytes, prefetch %d; medians of %d rounds (%.0f s)\n\n",
		printable.Text(r.Broker, ""), r.Store, runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), r.Messages, bodySize,
		prefetch, r.Rounds, r.Seconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CONTEST\tQUEUE\tFAILING\tSTRIKES/s\tAGAINST\tITS/s\tRATIO\tROUNDS\tGOAL")
	for _, x := range r.Ratios {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.0f\t%s\t%.0f\t%.2f\t%.2f-%.2f\t%s\n", x.Contest, x.Queue,
			percentage(x.Contest, x.Failing), x.OfRate, x.To, x.ToRate, x.Median, x.Least, x.Most, x.goal())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return printCosts(w, r.Cases)
}

// printCosts prints the CPU time, as far as it is known.
func printCosts(w io.Writer, cases []*Case) error {
	cases = slices.DeleteFunc(slices.Clone(cases), func(c *Case) bool { return c.Cost == nil })
	if len(cases) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nCPU time of a message, in µs:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CONTEST\tQUEUE\tFAILING\tCONTESTANT\tBROKER\tSTORE\tCLIENT\tALL")
	for _, c := range cases {
		x := c.Cost
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\n", c.Contest, c.Queue,
			percentage(c.Contest, c.Failing),
			c.Name, x.Broker, x.Store, x.Client, x.Broker+x.Store+x.Client)
	}
	return t.Flush()
}

func (r ratio) goal() string {
	switch {
	case r.Goal == 0:
		return "-"
	case r.Median < r.Goal:
		return fmt.Sprintf(">= %.2f missed", r.Goal)
	}
	return fmt.Sprintf(">= %.2f", r.Goal)
}

func percentage(contest string, percent int) string {
	if mayFail(contest) {
		return fmt.Sprintf("%d%%", percent)
	}
	return "-"
}
