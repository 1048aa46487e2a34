package bench

import "github.com/strikesmq/strikes/topology"

// goal is what a Ratio should come to, on both kinds of queue unless it names one.
type goal struct {
	contest, of, to string
	queue           topology.Type
	failing         int
	value           float64
}

var goals = []goal{
	{contest: Success, of: Strikes, to: bareEach, value: 1.25},
	{contest: Success, of: Strikes, to: bareMultiple, value: 0.85},
	{contest: Failing, of: Strikes, to: handINCR, failing: 10, value: 1.2},
	{contest: Failing, of: Strikes, to: handDEL, failing: 10, value: 2},
	{contest: Failing, of: Strikes, to: brokerLimit, failing: 10, queue: topology.Quorum, value: 0.7},
	{contest: Failing, of: Strikes, to: headerCount, failing: 10, value: 2.5},
	{contest: Ordered, of: Strikes, to: oneAtATime, value: 4},
	{contest: OrderedFailing, of: Strikes, to: handOrdered, failing: 10, queue: topology.Classic, value: 2.9},
	{contest: OrderedFailing, of: Strikes, to: handOrdered, failing: 10, queue: topology.Quorum, value: 4},
	{contest: Publish, of: Strikes, to: barePipelined, value: 0.9},
	{contest: Counter, of: stepFail, to: plainINCR, value: 1},
	{contest: Counter, of: manyLive, to: fewLive, value: 1.2},
}

func (r Ratio) withGoal() Ratio {
	for _, g := range goals {
		if g.contest == r.Contest && g.of == r.Of && g.to == r.To && g.failing == r.Failing && (g.queue == "" || g.queue == r.Queue) {
			r.Goal = g.value
		}
	}
	return r
}

// Met reports whether the median is as good as the goal; true without one.
func (r Ratio) Met() bool {
	switch {
	case r.Goal == 0:
		return true
	case r.Unit == Time:
		return r.Median <= r.Goal
	}
	return r.Median >= r.Goal
}
