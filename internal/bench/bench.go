// Package bench measures this module beside what a program could do without it: a bare amqp091-go loop, the broker's own
// delivery limit, a count in a header, a count in Redis by hand.
//
// The contestants of one contest get the same messages, prefetch, durability and concurrency, on queues of their own that
// are filled beforehand. This module publishes on connections of publisher.BufferedDialer; all else goes over connections as
// amqp091-go makes them. They run one after the other in each round, in another order each time, and the ratio of two is taken
// within a round, so that what else the machine does meanwhile weighs on both. Each one's messages are accounted for after
// each run: a contestant that loses one, or runs one too often, is an error and no result.
package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/topology"
)

// What all contestants have in common.
const (
	Prefetch = 100
	BodySize = 256 // bytes
	Retries  = 3
)

// Contests that Options.Only may name.
const (
	Success = "success" // every message succeeds, one handler at a time
	Failing = "failing" // some messages always fail, several handlers at once
	Ordered = "ordered" // strict order, on a single-active-consumer queue
	Publish = "publish" // 64 goroutines against a hand-pipelined client
	Counter = "counter" // steps on the store

	OrderedFailing = "ordered-failing" // strict order and messages that always fail, against a loop by hand
)

// Contests lists them all, in the order in which they run.
func Contests() []string {
	return []string{Success, Failing, Ordered, OrderedFailing, Publish, Counter}
}

// Options say what to measure, and where. Nothing but what was declared for the purpose is touched, and that is removed.
type Options struct {
	Dial          func(context.Context) (*amqp.Connection, error) // a new connection, which bench closes
	DialPublisher func(context.Context) (*amqp.Connection, error) // the same by publisher.BufferedDialer, which is for this module alone
	RedisURL      string                                          // redis://, rediss:// or unix://; one server

	// Name begins the names of all queues, exchanges and keys. It must be new: a queue that exists is an error.
	Name string

	Only        []string        // contests; if empty, all
	Types       []topology.Type // of the queues; if empty, both
	Messages    int             // in each queue; if zero, 3000
	Rounds      int             // that count; of more than one, a shorter one before them does not; if zero, 5
	Failing     []int           // percent of the messages that fail always; if empty, 0, 1 and 10
	Concurrency int             // handlers at once where messages fail; if zero, 8
	Live        int             // counters that the store holds in the end, for their size and speed; if zero, 1,000,000

	// Time is about how long it may take; if zero, 3 minutes. No round begins when most of it is over, after the first, and
	// the store is filled with no more than fits into the rest: the Result says how much was done.
	Time time.Duration

	// CPU tells for how long processors have worked for each so far; if nil, it is not known.
	CPU func() CPU

	// Progress is told what comes next, after so many of all steps; if nil, nobody is.
	Progress func(done, all int, next string)
}

func (o Options) withDefaults() Options {
	setDefault(&o.Messages, 3000)
	setDefault(&o.Rounds, 5)
	setDefault(&o.Concurrency, 8)
	setDefault(&o.Live, 1_000_000)
	if len(o.Only) == 0 {
		o.Only = Contests()
	}
	if len(o.Types) == 0 {
		o.Types = []topology.Type{topology.Classic, topology.Quorum}
	}
	if len(o.Failing) == 0 {
		o.Failing = []int{0, 1, 10}
	}
	if o.Time == 0 {
		o.Time = 3 * time.Minute
	}
	if o.CPU == nil {
		o.CPU = func() CPU { return CPU{} }
	}
	if o.Progress == nil {
		o.Progress = func(int, int, string) {}
	}
	return o
}

func setDefault(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

// Validate says which of the fields is wrong.
func (o Options) Validate() error {
	named := o.Only
	o = o.withDefaults()
	for _, f := range []struct {
		name        string
		value       int
		least, most int
	}{
		{"Messages", o.Messages, 100, 1_000_000}, {"Rounds", o.Rounds, 1, 100}, {"Concurrency", o.Concurrency, 1, Prefetch},
		{"Live", o.Live, few, 10_000_000},
	} {
		if f.value < f.least || f.value > f.most {
			return fmt.Errorf("bench: %s is %d: it is %d to %d", f.name, f.value, f.least, f.most)
		}
	}
	if o.Time < 0 {
		return fmt.Errorf("bench: Time is %v: it must be positive", o.Time)
	}
	for _, percent := range o.Failing {
		if percent < 0 || percent > 100 {
			return fmt.Errorf("bench: Failing is %d %%: it is 0 to 100", percent)
		}
	}
	if slices.Contains(named, OrderedFailing) && slices.Max(o.Failing) == 0 {
		return fmt.Errorf("bench: Failing is %v: contest %q needs a percentage above 0", o.Failing, OrderedFailing)
	}
	for _, only := range o.Only {
		if !slices.Contains(Contests(), only) {
			return fmt.Errorf("bench: there is no contest %q: it is one of %q", only, Contests())
		}
	}
	return nil
}

// sampleTimeout is for one contestant in one round. It is far beyond what any takes: something hangs.
const sampleTimeout = 2 * time.Minute

// Run measures, and removes what it made, also if ctx ends it. It is meant to have the machine for itself.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	began := time.Now()
	o = o.withDefaults()
	g, err := newGround(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close(ctx)) }()
	all := cases(o)
	p := &population{ground: g, until: began.Add(o.Time)}
	steps := (o.Rounds + 1) * len(all)
	if slices.Contains(o.Only, Counter) {
		steps += p.steps()
	}
	g.expect(steps)
	if err := rounds(ctx, g, all, began.Add(o.Time*6/10)); err != nil {
		return nil, err
	}
	result := g.result(all)
	if slices.Contains(o.Only, Counter) {
		if err := p.measure(ctx, result); err != nil {
			return nil, err
		}
	}
	result.Seconds = time.Since(began).Seconds()
	return result, nil
}

// rounds runs every case once a round, each time beginning with another. Of several, the first warms up.
func rounds(ctx context.Context, g *ground, all []*Case, until time.Time) error {
	warmUp := 0
	if g.Rounds > 1 {
		warmUp = 1
	}
	for round := range g.Rounds + warmUp {
		n := g.Messages
		if round < warmUp {
			n = max(n/4, 100)
		}
		if round > warmUp && time.Now().After(until) {
			return nil
		}
		for i := range all {
			c := all[(i+round*7)%len(all)]
			s, err := c.run(ctx, g, n)
			if err != nil {
				return fmt.Errorf("bench: %s: %w", c, err)
			}
			if round >= warmUp {
				c.add(s)
			}
		}
	}
	return nil
}

func (c *Case) run(ctx context.Context, g *ground, n int) (sample, error) {
	g.step(c.String())
	runtime.GC() // what the one before left behind
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	return c.sample(ctx, g, n)
}
