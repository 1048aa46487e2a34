package bench

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/strikesmq/strikes/topology"
)

// Case is one contestant on one kind of queue, and its results.
type Case struct {
	row
	queue    topology.Type
	failing  int       // percent
	rates    []float64 // messages a second, in each round
	used     cpu       // in all rounds
	messages int       // in all rounds
}

// sample is the measurement of one round.
type sample struct {
	messages int
	took     time.Duration
	cpu      cpu
}

func (c *Case) add(s sample) {
	c.rates = append(c.rates, float64(s.messages)/s.took.Seconds())
	c.messages += s.messages
	for i := range s.cpu {
		c.used[i] += s.cpu[i]
	}
}

func (c *Case) String() string {
	return fmt.Sprintf("%s, %s, %s, failing %s", c.contest, c.name, c.queue, c.percentage())
}

func (c *Case) percentage() string {
	if !mayFail(c.contest) {
		return "-"
	}
	return fmt.Sprintf("%d%%", c.failing)
}

// median of at least one value.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ratios compares two cases round by round.
func ratios(of, to *Case) []float64 {
	all := make([]float64, min(len(of.rates), len(to.rates)))
	for i := range all {
		all[i] = of.rates[i] / to.rates[i]
	}
	return all
}

// print prints the ratios of strikes and the other contestants, and the CPU time as far as it is known.
func (b *bench) print(w io.Writer, all []*Case) error {
	fmt.Fprintf(w, "RabbitMQ %s, Redis %s, %s/%s with %d CPUs; ", b.broker.Version, b.store.One.Version, runtime.GOOS,
		runtime.GOARCH, runtime.NumCPU())
	fmt.Fprintf(w, "%d messages of %d bytes, prefetch %d; medians of %d rounds\n\n", b.messages, bodySize, prefetch,
		len(all[0].rates))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CONTEST\tQUEUE\tFAILING\tSTRIKES/s\tAGAINST\tITS/s\tRATIO\tROUNDS")
	for _, of := range all {
		for _, to := range all {
			if of.name != strikes || to == of || of.contest != to.contest || of.queue != to.queue || of.failing != to.failing {
				continue
			}
			r := ratios(of, to)
			fmt.Fprintf(t, "%s\t%s\t%s\t%.0f\t%s\t%.0f\t%.2f\t%.2f-%.2f\n", of.contest, of.queue, of.percentage(),
				median(of.rates), to.name, median(to.rates), median(r), slices.Min(r), slices.Max(r))
		}
	}
	fmt.Fprintln(t, "\nCPU time of a message, in µs; of stores, that of Redis:")
	fmt.Fprintln(t, "CONTEST\tQUEUE\tFAILING\tCONTESTANT\tBROKER\tSTORE\tCLIENT\tALL")
	for _, c := range all {
		of := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(c.messages) }
		if c.used != (cpu{}) {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\n", c.contest, c.queue, c.percentage(), c.name,
				of(c.used[0]), of(c.used[1]), of(c.used[2]), of(c.used[0]+c.used[1]+c.used[2]))
		}
	}
	return t.Flush()
}
