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
	success = "success" // every message succeeds, one handler at a time
	failing = "failing" // some messages always fail, several handlers in parallel
	ordered = "ordered" // strict order, on a single-active-consumer queue
	stored  = "stores"  // failing, with the counts in databases that write each COMMIT to the disk
)

// contests lists all contests. The last one runs only if -only names it.
var contests = []string{success, failing, ordered, stored}

// mayFail reports whether messages of a contest fail if -failing says so.
func mayFail(contest string) bool { return contest != success }

// The names of contestants that code refers to.
const (
	strikes   = "strikes"
	withDelay = "strikes, DelayAbove"
)

// row is one contestant. The first one of a contest is compared with the others.
type row struct {
	contest, name string
	loop          loop
	spec          topology.Spec // of its queue
	only          topology.Type // the only kind of queue it is for; if empty, both
	sound         bool          // only for queues of which no message fails
}

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
		{contest: success, name: strikes, loop: plain},
		{contest: success, name: "bare, ack each", loop: byHand(ways.Find("bare"))},
		{contest: success, name: "bare, ack multiple", loop: ackMultiple},
		{contest: success, name: withDelay, loop: delaying, spec: queues, sound: true},

		{contest: failing, name: strikes, loop: plain},
		{contest: failing, name: "INCR+EXPIRE by hand", loop: byHand(ways.Find("incr"))},
		{contest: failing, name: "INCR+EXPIRE by hand, DEL on success", loop: byHand(incrAndDel())},
		{contest: failing, name: "the broker's delivery limit", loop: byHand(ways.Find("delivery-limit")),
			only: topology.Quorum, spec: limited},
		{contest: failing, name: "republish with a count in a header", loop: byHand(ways.Find("copy-ack"))},
		{contest: failing, name: "strikes, counting in memory", loop: inMemory},
		{contest: failing, name: withDelay, loop: delaying, spec: queues, sound: true},

		{contest: ordered, name: strikes, loop: inPlace, spec: single},
		{contest: ordered, name: "strikes, one at a time", loop: oneAtATime, spec: single},
		{contest: ordered, name: "strikes, HoldLanes", loop: holding, spec: single, sound: true},

		{contest: stored, name: strikes, loop: plain},
		{contest: stored, name: "strikes, counts in PostgreSQL", loop: inDatabase("postgres")},
		{contest: stored, name: "strikes, counts in MariaDB", loop: inDatabase("mysql")},
	}
}

// cases lists the cases of a round.
func cases(c config) (all []*Case) {
	for _, kind := range c.types {
		for _, r := range table() {
			if !slices.Contains(c.only, r.contest) || r.only != "" && string(r.only) != kind {
				continue
			}
			percentages := []int{0}
			if mayFail(r.contest) {
				percentages = c.failing
			}
			for _, percent := range percentages {
				if !r.sound || percent == 0 {
					all = append(all, &Case{row: r, queue: topology.Type(kind), failing: percent})
				}
			}
		}
	}
	return all
}
