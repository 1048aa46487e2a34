package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/strikesmq/strikes/topology"
)

// Strikes is the name under which this module takes part.
const Strikes = "strikes"

// The others, and what this module is divided into.
const (
	bareEach      = "bare, ack each"
	bareMultiple  = "bare, ack multiple"
	handINCR      = "INCR+EXPIRE by hand"
	handDEL       = "INCR+EXPIRE by hand, DEL on success"
	brokerLimit   = "the broker's delivery limit"
	handOrdered   = "INCR+EXPIRE by hand, prefetch 1"
	headerCount   = "republish with a count in a header"
	oneAtATime    = "strikes, one at a time"
	noStore       = "strikes, counting in memory"
	barePipelined = "bare, pipelined"
	stepFail      = "FAIL"
	plainINCR     = "plain INCR"
	fewLive       = "FAIL, few live"
	manyLive      = "FAIL, many live"
)

// Case is one contestant on one kind of queue, and what it achieved. The slices hold an entry for each round.
type Case struct {
	Contest string        `json:"contest"`
	Name    string        `json:"name"`
	Queue   topology.Type `json:"queue,omitempty"`
	Failing int           `json:"failing_percent"`
	Live    int           `json:"live_counters,omitempty"` // in the queue, before the measurement

	Messages     int       `json:"messages"`         // accounted for, or steps taken, in each round
	DeadLettered int       `json:"dead_lettered"`    // of them
	Runs         int       `json:"runs"`             // of the handler, in each round
	Rates        []float64 `json:"rates"`            // messages, or steps, a second
	Median       float64   `json:"median"`           // of the rates
	Cost         *Cost     `json:"cpu_us,omitempty"` // for each message, in all rounds; nil: not known

	used    CPU // in all rounds
	settled int // messages in them

	sample func(ctx context.Context, g *ground, n int) (sample, error)
}

// sample is what one run of a case came to.
type sample struct {
	messages, deadLettered, runs int
	rate                         float64
	cpu                          CPU // while it ran
}

func (c *Case) add(s sample) {
	c.Messages, c.DeadLettered, c.Runs = s.messages, s.deadLettered, s.runs
	c.Rates = append(c.Rates, s.rate)
	c.Median = median(c.Rates)
	c.used, c.settled = c.used.plus(s.cpu), c.settled+s.messages
	c.Cost = c.used.per(c.settled)
}

func (c *Case) String() string {
	s := c.Contest + ", " + c.Name
	if c.Queue != "" {
		s += ", " + string(c.Queue)
	}
	if MayFail(c.Contest) {
		s += fmt.Sprintf(", %d %% failing", c.Failing)
	}
	return s
}

// MayFail reports whether a contest has messages that fail, if Options.Failing says so.
func MayFail(contest string) bool {
	return contest == Failing || contest == Ordered || contest == OrderedFailing
}

// entry is a contestant that consumes.
type entry struct {
	contest, name string
	queue         topology.Type // the only kind it is for; if empty, both
	spec          topology.Spec // of its queue
	loop          loop
}

// entries lists who consumes. In each contest this module is first.
func entries() []entry {
	limited := topology.Spec{DeliveryLimit: Retries}
	single := topology.Spec{SingleActiveConsumer: true}
	return []entry{
		{contest: Success, name: Strikes, loop: strikes},
		{contest: Success, name: bareEach, loop: ackEach},
		{contest: Success, name: bareMultiple, loop: ackMultiple},
		{contest: Failing, name: Strikes, loop: strikes},
		{contest: Failing, name: handINCR, loop: incrByHand},
		{contest: Failing, name: handDEL, loop: incrByHandDel},
		{contest: Failing, name: brokerLimit, loop: deliveryLimit, queue: topology.Quorum, spec: limited},
		{contest: Failing, name: headerCount, loop: republish},
		{contest: Failing, name: noStore, loop: strikesInMemory},
		{contest: Ordered, name: Strikes, loop: strikesInPlace, spec: single},
		{contest: Ordered, name: oneAtATime, loop: strikesOneAtATime, spec: single},
		{contest: OrderedFailing, name: Strikes, loop: strikesInPlace, spec: single},
		{contest: OrderedFailing, name: handOrdered, loop: incrByHandOrdered, spec: single},
	}
}

// cases lists what a round consists of.
func cases(o Options) []*Case {
	var all []*Case
	for _, kind := range o.Types {
		for _, e := range entries() {
			if !slices.Contains(o.Only, e.contest) || e.queue != "" && e.queue != kind {
				continue
			}
			for _, percent := range o.rates(e.contest) {
				all = append(all, &Case{Contest: e.contest, Name: e.name, Queue: kind, Failing: percent, sample: e.sampler(kind, percent, o)})
			}
		}
		if slices.Contains(o.Only, Publish) {
			all = append(all,
				&Case{Contest: Publish, Name: Strikes, Queue: kind, sample: publishing(kind, publishStrikes)},
				&Case{Contest: Publish, Name: barePipelined, Queue: kind, sample: publishing(kind, publishBare)})
		}
	}
	if slices.Contains(o.Only, Counter) {
		all = append(all, counterCases()...)
	}
	return all
}

// rates lists the shares of failing messages that a contest is run with, in percent.
func (o Options) rates(contest string) []int {
	switch contest {
	case Success:
		return []int{0}
	case OrderedFailing:
		return slices.DeleteFunc(slices.Clone(o.Failing), func(percent int) bool { return percent == 0 })
	}
	return o.Failing
}

func (e entry) sampler(kind topology.Type, percent int, o Options) func(context.Context, *ground, int) (sample, error) {
	workers := 1
	if e.contest == Failing {
		workers = o.Concurrency
	}
	return func(ctx context.Context, g *ground, n int) (sample, error) {
		spec := e.spec
		spec.Type = kind
		a := &arena{ground: g, spec: spec, workers: workers, tally: newTally(n, percent)}
		a.tally.ordered = e.contest == Ordered || e.contest == OrderedFailing
		return a.run(ctx, e.loop)
	}
}
