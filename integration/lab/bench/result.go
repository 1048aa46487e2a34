package bench

import (
	"slices"

	"github.com/strikesmq/strikes/topology"
)

// result is what was measured.
type result struct {
	Broker, Store string
	Messages      int
	Rounds        int // that were completed
	Cases         []*Case
	Ratios        []ratio
	Seconds       float64
}

// ratio compares strikes with another contestant: the median, least and greatest of the rounds.
type ratio struct {
	Contest, Of, To     string
	Queue               topology.Type
	Failing             int     // percent
	OfRate, ToRate      float64 // a second, the median of the rounds
	Median, Least, Most float64
	Goal                float64 // at least; zero: there is none
}

// result sums up the rounds.
func (b *bench) result(all []*Case) *result {
	r := &result{Broker: "RabbitMQ " + b.broker.Version, Store: "Redis " + b.store.One.Version, Messages: b.messages,
		Cases: all}
	if len(all) > 0 {
		r.Rounds = len(all[0].Rates)
	}
	for _, of := range all {
		for _, to := range all {
			same := of.Contest == to.Contest && of.Queue == to.Queue && of.Failing == to.Failing
			if of.Name == strikes && to != of && same {
				r.Ratios = append(r.Ratios, compare(of, to, to.goal.of(to.Queue, to.Failing)))
			}
		}
	}
	return r
}

// compare returns the ratio of two cases, round by round.
func compare(of, to *Case, goal float64) ratio {
	r := ratio{Contest: of.Contest, Of: of.Name, To: to.Name, Queue: of.Queue, Failing: of.Failing, OfRate: of.Median,
		ToRate: to.Median, Goal: goal}
	all := make([]float64, min(len(of.Rates), len(to.Rates)))
	for i := range all {
		all[i] = of.Rates[i] / to.Rates[i]
	}
	r.Median, r.Least, r.Most = median(all), slices.Min(all), slices.Max(all)
	return r
}
