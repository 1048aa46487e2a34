package bench

import (
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/lab/ways"
	"github.com/strikesmq/strikes/topology"
)

// The contests, as -only names them.
const (
	success        = "success"         // every message succeeds, one handler at a time
	failing        = "failing"         // some messages always fail, several handlers in parallel
	ordered        = "ordered"         // strict order, on a single-active-consumer queue
	orderedFailing = "ordered-failing" // strict order and messages that always fail, compared with a loop by hand
	// strikes consume --http and messages that always fail, compared with a loop that posts
	pushing    = "push"
	publishing = "publish" // 64 goroutines, compared with a hand-pipelined client
	stored     = "stores"  // failing, with the counts in databases that write each COMMIT to the disk; only -only runs it
)

func contests() []string {
	return []string{success, failing, ordered, orderedFailing, pushing, publishing, stored}
}

// The names of contestants that code refers to.
const (
	strikes   = "strikes"
	handINCR  = "INCR+EXPIRE by hand"
	withDelay = "strikes, DelayAbove"
)

// row is one contestant. The first one of a contest is compared with the others.
type row struct {
	contest, name string
	measure       measurement
	spec          topology.Spec // of its queue
	only          topology.Type // the only kind of queue it is for; if empty, both
	goal          goal
	sound         bool // only for queues of which no message fails
}

// goal is the ratio that the first contestant should reach, where at percent of the messages fail; zero: there is none.
type goal struct {
	classic, quorum float64
	at              int
}

// both is a goal for both kinds of queue.
func both(value float64, at int) goal { return goal{value, value, at} }

// way measures a way of the comparison.
func way(name string) measurement { return consuming(byHand(ways.Find(name), prefetch)) }

// orderedPrefetch is for retries in place.
const orderedPrefetch = 30

// table lists all contestants.
func table() []row {
	limited := topology.Spec{DeliveryLimit: retries}
	single := topology.Spec{SingleActiveConsumer: true}
	queues := topology.Spec{DelayQueues: true}
	plain := ours(consumer.Consumer{Prefetch: prefetch})
	// No message is delayed.
	delaying := ours(consumer.Consumer{Prefetch: prefetch, DelayAbove: consumer.DefaultDelayAbove})
	inPlace := ours(consumer.Consumer{Prefetch: orderedPrefetch, Ordered: true})
	oneAtATime := ours(consumer.Consumer{Prefetch: 1, Ordered: true, Retry: consumer.RetryRequeue})
	// No lane is blocked. There is one, as the tally wants the order of all messages.
	holding := ours(consumer.Consumer{Prefetch: orderedPrefetch, Ordered: true, HoldLanes: true,
		Lane: func(amqp.Delivery) string { return "one" }})
	inMemory := ours(consumer.Consumer{Prefetch: prefetch, Counter: counter.NewMemory(nil)}) // the settlements alone
	return []row{
		{contest: success, name: strikes, measure: plain},
		{contest: success, name: "bare, ack each", measure: way("bare"), goal: both(1.25, 0)},
		{contest: success, name: "bare, ack multiple", measure: consuming(ackMultiple), goal: both(.85, 0)},
		{contest: success, name: withDelay, measure: delaying, spec: queues, sound: true},

		{contest: failing, name: strikes, measure: plain},
		{contest: failing, name: handINCR, measure: way("incr"), goal: both(1.2, 10)},
		{contest: failing, name: "INCR+EXPIRE by hand, DEL on success", measure: consuming(byHand(incrAndDel(), prefetch)),
			goal: both(2, 10)},
		{contest: failing, name: "the broker's delivery limit", measure: way("delivery-limit"), only: topology.Quorum,
			spec: limited, goal: both(.7, 10)},
		{contest: failing, name: "republish with a count in a header", measure: way("copy-ack"), goal: both(2.5, 10)},
		{contest: failing, name: "strikes, counting in memory", measure: inMemory},
		{contest: failing, name: withDelay, measure: delaying, spec: queues, sound: true},

		{contest: stored, name: strikes, measure: plain},
		{contest: stored, name: "strikes, counts in PostgreSQL", measure: inDatabase("postgres")},
		{contest: stored, name: "strikes, counts in MariaDB", measure: inDatabase("mysql")},

		{contest: ordered, name: strikes, measure: inPlace, spec: single},
		{contest: ordered, name: "strikes, one at a time", measure: oneAtATime, spec: single,
			goal: both(4, 0)},
		{contest: ordered, name: "strikes, HoldLanes", measure: holding, spec: single, sound: true},

		{contest: orderedFailing, name: strikes, measure: inPlace, spec: single},
		{contest: orderedFailing, name: "INCR+EXPIRE by hand, prefetch 1", measure: consuming(byHand(ways.Find("incr"), 1)),
			spec: single, goal: goal{2.9, 4, 10}},

		{contest: pushing, name: strikes, measure: posting(pushStrikes)},
		{contest: pushing, name: "bare, posts and acks", measure: posting(pushBare)},

		{contest: publishing, name: strikes, measure: publish(publishStrikes)},
		{contest: publishing, name: "bare, pipelined", measure: publish(publishBare), goal: both(.9, 0)},
	}
}

// cases lists the cases of a round.
func cases(c config) (all []*Case) {
	for _, kind := range c.types {
		for _, r := range table() {
			if !slices.Contains(c.only, r.contest) || r.only != "" && r.only != kind {
				continue
			}
			for _, percent := range c.percentages(r.contest) {
				if r.sound && percent > 0 {
					continue
				}
				all = append(all, &Case{Contest: r.contest, Name: r.name, Queue: kind, Failing: percent, row: r})
			}
		}
	}
	return all
}

// percentages lists the shares of failing messages that a contest is run with.
func (c config) percentages(contest string) []int {
	switch contest {
	case failing, ordered, pushing, stored:
		return c.failing
	case orderedFailing:
		return slices.DeleteFunc(slices.Clone(c.failing), func(percent int) bool { return percent == 0 })
	}
	return []int{0}
}

// of returns the goal for a kind of queue and a share of failing messages.
func (g goal) of(kind topology.Type, percent int) float64 {
	switch {
	case percent != g.at:
		return 0
	case kind == topology.Quorum:
		return g.quorum
	}
	return g.classic
}
