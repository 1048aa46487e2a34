package consumer

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// simPlan is what a seed decides beforehand.
type simPlan struct {
	maxRetries  int // as configured: negative means none
	isolation   Isolation
	retry       RetryMode
	processes   int
	consumers   int // in each process, on the same queue
	concurrency int
	prefetch    int
	faults      int
	ordered     bool // on a single-active-consumer queue
	sour        int  // percent of the requests to the store that go wrong until it is calm
	messages    []simMessagePlan
}

type simMessagePlan struct {
	id     string
	lane   string
	copies int
	does   simBehaviour
}

const (
	simHandlerTimeout  = 4 * time.Second
	simDrainTimeout    = 3 * time.Second
	simConsumerTimeout = time.Minute
	simFaultSteps      = 150 // after so many no fault is begun
	simMostSteps       = 4000
	simMostRuns        = 100
)

func newSimPlan(rng *rand.Rand) simPlan {
	p := simPlan{
		maxRetries: []int{-1, 1, 2, 3}[rng.IntN(4)], isolation: IsolationSuspects, retry: RetryRequeue,
		processes: 1 + rng.IntN(3), consumers: 1 + rng.IntN(4)/3, concurrency: 1 + rng.IntN(2), prefetch: 1 + rng.IntN(4),
		faults: rng.IntN(11),
	}
	switch n := rng.IntN(20); {
	case n < 3:
		p.isolation = IsolationStrict
	case n < 4:
		p.isolation = IsolationOff
	}
	if rng.IntN(5) < 2 {
		p.retry = RetryInPlace
	}
	p.messages = []simMessagePlan{{id: "m", copies: 1 + rng.IntN(3)/2, does: simBehaviours[rng.IntN(len(simBehaviours))]}}
	for _, id := range []string{"n1", "n2"}[:rng.IntN(3)] {
		m := simMessagePlan{id: id, copies: 1, does: simBehaviours[0]}
		if rng.IntN(3) == 0 {
			m.does = simBehaviours[rng.IntN(len(simBehaviours))]
		}
		p.messages = append(p.messages, m)
	}
	if rng.IntN(4) == 0 {
		p.order(rng)
	}
	if rng.IntN(10) == 0 {
		p.messages = append(p.messages, simMessagePlan{copies: 1, does: simBehaviours[rng.IntN(len(simBehaviours))]})
	}
	if rng.IntN(6) == 0 {
		p.endanger(rng)
	}
	for i := range p.messages {
		if p.isolation == IsolationOff && p.messages[i].does.name == "kills" { // it would come back for ever, as is documented
			p.messages[i].does = simBehaviour{"kills three times", first(3, "kill", "ok")}
		}
	}
	return p
}

// endanger has healthy messages beside killers, on a store that loses, delays and doubles what it is sent.
func (p *simPlan) endanger(rng *rand.Rand) {
	p.sour = rng.IntN(95)
	if !p.ordered {
		p.prefetch = max(p.prefetch, 2)
	}
	for n := range 2 + rng.IntN(3) {
		does := simBehaviours[0]
		if n%2 == 0 {
			does = simKillers[rng.IntN(len(simKillers))]
		}
		p.messages = append(p.messages, simMessagePlan{id: fmt.Sprint("d", n), copies: 1, does: does})
	}
}

// order makes it a plan of an ordered queue: more messages, in one lane or two.
func (p *simPlan) order(rng *rand.Rand) {
	p.ordered, p.retry, p.prefetch = true, RetryInPlace, 1+rng.IntN(12)
	if rng.IntN(4) == 0 {
		p.retry, p.prefetch = RetryRequeue, 1
	}
	lanes := []string{"", "other"}[:1+rng.IntN(2)]
	if p.retry == RetryRequeue || len(lanes) == 1 {
		p.concurrency, lanes = 1, lanes[:1]
	}
	for n := range rng.IntN(8) {
		m := simMessagePlan{id: fmt.Sprint("o", n), copies: 1, does: simBehaviours[0], lane: lanes[rng.IntN(len(lanes))]}
		if rng.IntN(3) == 0 {
			m.does = simBehaviours[rng.IntN(len(simBehaviours))]
		}
		p.messages = append(p.messages, m)
	}
}

func (p *simPlan) lane(id string) string {
	for _, m := range p.messages {
		if m.id == id {
			return m.lane
		}
	}
	return ""
}

// simBehaviour is what the handler makes of a message: of its nth run, from 1.
type simBehaviour struct {
	name string
	of   func(n int) string
}

func always(what string) func(int) string { return func(int) string { return what } }

func first(n int, what, then string) func(int) string {
	return func(run int) string {
		if run <= n {
			return what
		}
		return then
	}
}

var simBehaviours = []simBehaviour{
	{"succeeds", always("ok")},
	{"fails", always("error")},
	{"fails", always("error")},
	{"fails once", first(1, "error", "ok")},
	{"fails twice", first(2, "error", "ok")},
	{"panics", always("panic")},
	{"is rejected", always("reject")},
	{"fails once, is rejected", first(1, "error", "reject")},
	{"kills", always("kill")},
	{"kills", always("kill")},
	{"kills", always("kill")},
	{"kills once", first(1, "kill", "ok")},
	{"kills three times", first(3, "kill", "ok")},
	{"kills twice, fails", first(2, "kill", "error")},
	{"hangs", always("hang")},
	{"hangs and is deaf", always("deaf")},
	{"hangs and is deaf once", first(1, "deaf", "ok")},
	{"ends its goroutine", always("goexit")},
	{"is abandoned, then kills", always("abandoned kill")},
	{"is abandoned, then kills, once", first(1, "abandoned kill", "ok")},
}

var simKillers = []simBehaviour{
	{"kills", always("kill")},
	{"kills three times", first(3, "kill", "ok")},
	{"is abandoned, then kills", always("abandoned kill")},
}
