package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/strikesmq/strikes/topology"
)

// Case is one contestant on one kind of queue, and its results. Rates holds an entry for each round.
type Case struct {
	Contest string
	Name    string
	Queue   topology.Type
	Failing int // percent

	Messages     int // accounted for, in each round
	DeadLettered int
	Attempts     int       // in each round
	Rates        []float64 // messages a second
	Median       float64
	Cost         *cost // of a message, over all rounds; nil: not known

	row
	used    cpu // in all rounds
	settled int // messages in all rounds
}

// measurement takes one sample with n messages.
type measurement func(ctx context.Context, b *bench, c *Case, n int) (sample, error)

type sample struct {
	messages, deadLettered, attempts int
	rate                             float64
	cpu                              cpu
}

func (c *Case) add(s sample) {
	c.Messages, c.DeadLettered, c.Attempts = s.messages, s.deadLettered, s.attempts
	c.Rates = append(c.Rates, s.rate)
	c.Median = median(c.Rates)
	c.used, c.settled = c.used.plus(s.cpu), c.settled+s.messages
	c.Cost = c.used.per(c.settled)
}

func (c *Case) String() string {
	s := c.Contest + ", " + c.Name + ", " + string(c.Queue)
	if mayFail(c.Contest) {
		s += fmt.Sprintf(", %d %% failing", c.Failing)
	}
	return s
}

// mayFail reports whether messages of a contest fail if -failing says so.
func mayFail(contest string) bool {
	return contest == failing || contest == ordered || contest == orderedFailing || contest == pushing ||
		contest == stored
}

// median of at least one value.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// cpu is the CPU time used by the broker, by the store, and by this process, the client that is measured.
type cpu struct{ broker, store, client time.Duration }

// cpu returns the time used so far; zero unless the broker is private.
func (b *bench) cpu() cpu {
	if b.broker.Private == nil {
		return cpu{}
	}
	return cpu{groupCPU(b.broker.Private.Group()), groupCPU(b.store.One.Group()), ownCPU()}
}

func (c cpu) since(before cpu) cpu {
	return cpu{c.broker - before.broker, c.store - before.store, c.client - before.client}
}

func (c cpu) plus(more cpu) cpu {
	return cpu{c.broker + more.broker, c.store + more.store, c.client + more.client}
}

// cost is CPU time of a message, in µs.
type cost struct{ Broker, Store, Client float64 }

// per spreads CPU time over messages; nil if it is not known.
func (c cpu) per(messages int) *cost {
	if c == (cpu{}) || messages == 0 {
		return nil
	}
	of := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(messages) }
	return &cost{of(c.broker), of(c.store), of(c.client)}
}
