package inspect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/broker"
)

// Listing sorts out the queues of a virtual host by their dead-letter routes.
type Listing struct {
	Queues     []string // that consumers may retry from, by name; a partitioned queue is one
	PassedOver []string // by name: exclusive ones, streams, delay queues, and the dead-letter queues of others

	// DeadLetters maps a dead-letter queue that is passed over to the queues that dead-letter to it. If the dead letters
	// of a queue reach none, QUEUE + ".dlq" counts as their dead-letter queue. A deleted QUEUE is there, too, if the
	// exchange QUEUE + ".dlx" still leads to QUEUE + ".dlq", and no other queue does. So is a QUEUE whose partitions were
	// all deleted.
	DeadLetters map[string][]string

	Routes     map[string]Route    // of each queue
	Partitions map[string][]string // of each partitioned queue
}

// List sorts out the queues of a graph that has all exchanges and queues. It passes over a queue that takes the dead
// letters of another one and has no dead-letter exchange itself, because it is judged with the other one. Messages that
// a delay queue returns are no dead letters. A queue of a program counts as a delay queue if its messages expire, it
// has no consumers, and the queue that they reach has some.
func (g Graph) List() Listing {
	out := Listing{DeadLetters: map[string][]string{}, Routes: map[string]Route{}, Partitions: g.Partitioned()}
	of, taken := map[string]string{}, map[string][]string{}
	for queue, partitions := range out.Partitions {
		out.Queues = append(out.Queues, queue)
		for _, name := range partitions {
			of[name] = queue
		}
	}
	for name, q := range g.Queues {
		route := g.Trace(*q)
		if out.Routes[name] = route; broker.IsDelayQueue(name) {
			continue
		}
		ends := route.Landings
		if usual := broker.DeadLetterQueueFor(name); len(ends) == 0 && g.Queues[usual] != nil {
			ends = []Landing{{Name: usual}}
		}
		_, expires := q.TTL()
		for _, end := range ends {
			if to := g.Queues[end.Name]; expires && !q.Consumed && to != nil && to.Consumed {
				continue
			}
			taken[end.Name] = append(taken[end.Name], cmp.Or(of[name], name))
		}
	}
	for name := range g.Queues {
		owner, usual := strings.CutSuffix(name, broker.DeadLetterQueueFor(""))
		toName := func(b broker.Binding) bool { return b.Destination == name && b.DestinationType == "queue" }
		if usual && len(taken[name]) == 0 && g.Queues[owner] == nil &&
			slices.ContainsFunc(g.Exchanges[broker.ExchangeFor(owner)].Bindings, toName) {
			taken[name] = []string{owner} // which was deleted, or all its partitions were
		}
	}
	for name, q := range g.Queues {
		_, deadLetters := q.DeadLetterExchange()
		takes := len(taken[name]) > 0 && !deadLetters
		if takes {
			slices.Sort(taken[name])
			out.DeadLetters[name] = slices.Compact(taken[name])
		}
		switch {
		case takes || !q.Retried():
			out.PassedOver = append(out.PassedOver, name)
		case of[name] == "":
			out.Queues = append(out.Queues, name)
		}
	}
	slices.Sort(out.Queues)
	out.Queues = slices.Compact(out.Queues) // a queue may have the name of a partitioned one
	slices.Sort(out.PassedOver)
	return out
}

// PassesOver reports whether the list passes over a queue.
func (l Listing) PassesOver(queue string) bool {
	_, found := slices.BinarySearch(l.PassedOver, queue)
	return found
}
