package bench

import (
	"runtime"
	"slices"

	"github.com/strikesmq/strikes/topology"
)

// Result is what was measured.
type Result struct {
	Name        string  `json:"name"` // what the names of all queues and keys began with
	Broker      string  `json:"broker"`
	Store       string  `json:"store"`
	Machine     string  `json:"machine"`
	CPUs        int     `json:"cpus"`
	Messages    int     `json:"messages"`
	Rounds      int     `json:"rounds"` // that were run
	Prefetch    int     `json:"prefetch"`
	BodySize    int     `json:"body_bytes"`
	Concurrency int     `json:"concurrency"` // where messages fail
	Cases       []*Case `json:"cases"`
	Ratios      []Ratio `json:"ratios"`

	Memory  []Memory `json:"memory,omitempty"`
	Seconds float64  `json:"seconds"`
}

// Ratio is how this module stands to another contestant: the median over the rounds, and what it was at least and at most.
type Ratio struct {
	Contest string        `json:"contest"`
	Of      string        `json:"of"`
	To      string        `json:"to"`
	Queue   topology.Type `json:"queue,omitempty"`
	Failing int           `json:"failing_percent"`
	OfRate  float64       `json:"of_rate"` // a second, the median of the rounds
	ToRate  float64       `json:"to_rate"`
	Unit    string        `json:"unit"` // of what: rate, where more is better, or time, where less is
	Median  float64       `json:"median"`
	Least   float64       `json:"least"`
	Most    float64       `json:"most"`
	Goal    float64       `json:"goal,omitempty"` // at least, of a rate; at most, of a time; zero: there is none
}

// Units of a Ratio.
const (
	Rate = "rate"
	Time = "time"
)

// result sums up the rounds.
func (g *ground) result(all []*Case) *Result {
	version, _ := g.admin.Properties["version"].(string)
	r := &Result{
		Name: g.Name, Broker: "RabbitMQ " + version, Store: "Redis " + g.version,
		Machine: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Messages: g.Messages, Rounds: played(all), Prefetch: Prefetch, BodySize: BodySize, Concurrency: g.Concurrency,
		Cases: all,
	}
	for _, of := range all {
		if !ours(of) {
			continue
		}
		for _, to := range all {
			if to != of && to.Contest == of.Contest && to.Queue == of.Queue && to.Failing == of.Failing && !ours(to) {
				r.Ratios = append(r.Ratios, ratio(of, to))
			}
		}
	}
	return r
}

// played is the number of rounds that count.
func played(all []*Case) int {
	if len(all) == 0 {
		return 0
	}
	return len(all[0].Rates)
}

// ours reports whether a case is measured against the others of its contest.
func ours(c *Case) bool { return c.Name == Strikes || c.Contest == Counter && c.Name != plainINCR }

// addPopulation adds what was measured last.
func (r *Result) addPopulation(small, large *Case) {
	r.Cases = append(r.Cases, small, large)
	taken := Ratio{Contest: Counter, Of: large.Name, To: small.Name, OfRate: large.Median, ToRate: small.Median, Unit: Time}
	taken.summarise(small.Rates, large.Rates) // the time is the inverse
	r.Ratios = append(r.Ratios, taken.withGoal())
}

// ratio compares round by round.
func ratio(of, to *Case) Ratio {
	r := Ratio{Contest: of.Contest, Of: of.Name, To: to.Name, Queue: of.Queue, Failing: of.Failing,
		OfRate: of.Median, ToRate: to.Median, Unit: Rate}
	r.summarise(of.Rates, to.Rates)
	return r.withGoal()
}

func (r *Ratio) summarise(of, to []float64) {
	all := make([]float64, min(len(of), len(to)))
	for i := range all {
		all[i] = of[i] / to[i]
	}
	r.Median, r.Least, r.Most = median(all), slices.Min(all), slices.Max(all)
}

// median of at least one value.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
