package bench

import (
	"runtime"
	"slices"

	"github.com/strikesmq/strikes/topology"
)

// result is what was measured.
type result struct {
	Name        string   `json:"name"` // prefix of all queues and keys
	Broker      string   `json:"broker"`
	Store       string   `json:"store"`
	Machine     string   `json:"machine"`
	CPUs        int      `json:"cpus"`
	Messages    int      `json:"messages"`
	Rounds      int      `json:"rounds"` // that were completed
	Prefetch    int      `json:"prefetch"`
	BodySize    int      `json:"body_bytes"`
	Concurrency int      `json:"concurrency"` // where messages fail
	Cases       []*Case  `json:"cases"`
	Ratios      []ratio  `json:"ratios"`
	Memory      []memory `json:"memory,omitempty"`
	Seconds     float64  `json:"seconds"`
}

// ratio compares strikes with another contestant: the median, least and greatest of the rounds.
type ratio struct {
	Contest string        `json:"contest"`
	Of      string        `json:"of"`
	To      string        `json:"to"`
	Queue   topology.Type `json:"queue,omitempty"`
	Failing int           `json:"failing_percent"`
	OfRate  float64       `json:"of_rate"` // a second, the median of the rounds
	ToRate  float64       `json:"to_rate"`
	Unit    string        `json:"unit"`
	Median  float64       `json:"median"`
	Least   float64       `json:"least"`
	Most    float64       `json:"most"`
	Goal    float64       `json:"goal,omitempty"` // at least, of a rate; at most, of a time; zero: there is none
}

// Units of a ratio.
const (
	unitRate = "rate" // more is better
	unitTime = "time" // less is better
)

// result sums up the rounds.
func (b *bench) result(all []*Case) *result {
	version, _ := b.admin.Properties["version"].(string)
	r := &result{
		Name: b.name, Broker: "RabbitMQ " + version, Store: "Redis " + b.storeVersion,
		Machine: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Messages: b.messages, Prefetch: prefetch, BodySize: bodySize, Concurrency: b.concurrency, Cases: all,
	}
	if len(all) > 0 {
		r.Rounds = len(all[0].Rates)
	}
	for _, of := range all {
		for _, to := range all {
			if of.leads() && !to.leads() && of.Contest == to.Contest && of.Queue == to.Queue && of.Failing == to.Failing {
				value := 0.0
				if of.first() {
					value = to.goal.of(to.Queue, to.Failing)
				}
				r.Ratios = append(r.Ratios, compare(of, to, value))
			}
		}
	}
	return r
}

// leads reports whether a case is compared with the others of its contest.
func (c *Case) leads() bool { return c.Name == strikes || c.Contest == steps && c.Name != plainINCR }

// first reports whether a case is the first of its contest, which the goals are for.
func (c *Case) first() bool {
	all := table()
	return all[slices.IndexFunc(all, func(r row) bool { return r.contest == c.Contest })].name == c.Name
}

// compare returns the ratio of two cases, round by round.
func compare(of, to *Case, goal float64) ratio {
	r := ratio{
		Contest: of.Contest, Of: of.Name, To: to.Name, Queue: of.Queue, Failing: of.Failing,
		OfRate: of.Median, ToRate: to.Median, Unit: unitRate, Goal: goal,
	}
	r.summarise(of.Rates, to.Rates)
	return r
}

func (r *ratio) summarise(of, to []float64) {
	all := make([]float64, min(len(of), len(to)))
	for i := range all {
		all[i] = of[i] / to[i]
	}
	r.Median, r.Least, r.Most = median(all), slices.Min(all), slices.Max(all)
}

// met reports whether the median reaches the goal; true without one.
func (r ratio) met() bool {
	switch {
	case r.Goal == 0:
		return true
	case r.Unit == unitTime:
		return r.Median <= r.Goal
	}
	return r.Median >= r.Goal
}
