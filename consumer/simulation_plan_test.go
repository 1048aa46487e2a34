package consumer

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/strikesmq/strikes/internal/audit"
)

// simPlan holds the decisions that a seed takes beforehand.
type simPlan struct {
	maxRetries  int // as configured: negative means none
	maxAge      time.Duration
	isolation   Isolation
	retry       RetryMode
	processes   int
	consumers   int // in each process, on the same queue
	concurrency int
	prefetch    int
	faults      int
	ordered     bool // on a single-active-consumer queue
	hold        bool // dead letters hold their lanes
	whole       bool // an exhausted message holds the whole queue
	partitions  int  // of the queue; zero: it has none
	astray      bool // a planted fault: each message has a lane of its own
	sour        int  // percent of the requests to the store that go wrong until it is calm
	delayQueues bool // long backoffs, and delay queues
	firstDelay  int  // which of them comes first
	oldProcess  bool // every other process has no delay queues
	differ      bool // every other process moves longer delays only
	operations  int  // of operators: pauses, resumes and skips
	sieges      int  // kills from outside of a process that is about to run an isolated attempt
	messages    []simMessagePlan
}

type simMessagePlan struct {
	id     string
	lane   string
	copies int
	before int  // copies that other entries of the plan publish
	differ bool // their bodies do
	does   simBehaviour
}

// body is that of the nth copy.
func (m *simMessagePlan) body(n int) string {
	if m.differ {
		return fmt.Sprint(m.id, n)
	}
	return m.id
}

const (
	simHandlerTimeout  = 4 * time.Second
	simDrainTimeout    = 3 * time.Second
	simConsumerTimeout = time.Minute
	simAbandoned       = 2 * time.Second // after its deadline a handler that runs is abandoned
	simFaultSteps      = 150             // after so many no fault is begun
	simMostSteps       = 4000
	simMostRuns        = 100
)

// audited is the plan as the audit needs it.
func (p *simPlan) audited() *audit.Plan {
	return &audit.Plan{
		MaxRetries: p.maxRetries, MaxAge: p.maxAge, HandlerTimeout: simHandlerTimeout, DrainTimeout: simDrainTimeout,
		Isolation: map[Isolation]string{IsolationOff: audit.IsolationOff}[p.isolation],
		Mixed:     p.oldProcess,
		Ordered:   p.ordered || !p.delayQueues && p.processes*p.consumers == 1 && p.prefetch == 1,
	}
}

func (p simPlan) String() string {
	out := fmt.Sprintf("limit %d, %s, %s, %d processes of %d consumers, concurrency %d, prefetch %d",
		max(p.maxRetries, 0)+1,
		map[Isolation]string{IsolationSuspects: "suspects isolated", IsolationOff: "isolation off"}[p.isolation],
		map[RetryMode]string{RetryRequeue: "requeue", RetryInPlace: "in place"}[p.retry],
		p.processes, p.consumers, p.concurrency, p.prefetch)
	if p.maxAge > 0 {
		out += fmt.Sprintf("; retried for %v", p.maxAge)
	}
	if p.sour > 0 {
		out += fmt.Sprintf("; %d %% of the requests to the store go wrong", p.sour)
	}
	if p.operations > 0 {
		out += fmt.Sprintf("; %d pauses, resumes and skips", p.operations)
	}
	if p.sieges > 0 {
		out += fmt.Sprintf("; %d kills before isolated attempts", p.sieges)
	}
	if p.delayQueues {
		out += fmt.Sprintf("; delay queues, backoffs from %v", p.delay(1))
	}
	if p.oldProcess {
		out += ", every other process without"
	}
	if p.differ {
		out += ", every other process above 4m"
	}
	if p.ordered {
		out += "; ordered, on a single-active-consumer queue"
	}
	return out
}

func newSimPlan(rng *rand.Rand) simPlan {
	p := simPlan{
		maxRetries: []int{-1, 1, 2, 3}[rng.IntN(4)], isolation: IsolationSuspects, retry: RetryRequeue,
		processes: 1 + rng.IntN(3), consumers: 1 + rng.IntN(4)/3, concurrency: 1 + rng.IntN(2), prefetch: 1 + rng.IntN(4),
		faults: rng.IntN(11),
	}
	if rng.IntN(20) == 0 {
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
	if rng.IntN(5) == 0 {
		p.operations = 1 + rng.IntN(8)
	}
	if rng.IntN(4) == 0 {
		p.sieges = 1 + rng.IntN(8)
	}
	if !p.ordered && (rng.IntN(4) == 0 || *simDelay) {
		// a process that reads each second would fill a day
		p.delayQueues, p.firstDelay, p.operations = true, rng.IntN(len(simDelays)), 0
		p.differ = rng.IntN(4) == 0
		p.messages[0].differ = rng.IntN(2) == 0
	}
	if rng.IntN(4) == 0 {
		p.maxAge = []time.Duration{time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second,
			20 * time.Second}[rng.IntN(5)]
	}
	for i := range p.messages {
		// it would come back without end, as documented
		if p.isolation == IsolationOff && p.messages[i].does.name == "kills" {
			p.messages[i].does = simBehaviour{"kills three times", first(3, "kill", audit.OK)}
		}
	}
	return p
}

// endanger has healthy messages beside those that kill a process, on a store that loses, delays and doubles requests.
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

// simBehaviour is the behaviour of the handler in the nth attempt at a message, from 1.
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
	{"succeeds", always(audit.OK)},
	{"fails", always(audit.Failed)},
	{"fails", always(audit.Failed)},
	{"fails once", first(1, audit.Failed, audit.OK)},
	{"fails twice", first(2, audit.Failed, audit.OK)},
	{"fails, no retry", always("at most 0")},
	{"fails, one retry", always("at most 1")},
	{"fails, then one retry", first(1, audit.Failed, "at most 1")},
	{"fails once, no retry but for others", first(1, "at most 2", audit.Failed)},
	{"kills, one retry", first(1, "kill", "at most 1")},
	{"panics", always(audit.Panicked)},
	{"is rejected", always(audit.Rejected)},
	{"fails once, is rejected", first(1, audit.Failed, audit.Rejected)},
	{"kills", always("kill")},
	{"kills", always("kill")},
	{"kills", always("kill")},
	{"kills once", first(1, "kill", audit.OK)},
	{"kills three times", first(3, "kill", audit.OK)},
	{"kills twice, fails", first(2, "kill", audit.Failed)},
	{"hangs", always("hang")},
	{"hangs and is deaf", always("deaf")},
	{"hangs and is deaf once", first(1, "deaf", audit.OK)},
	{"ends its goroutine", always(audit.Goexit)},
	{"is abandoned, then kills", always("abandoned kill")},
	{"is abandoned, then kills, once", first(1, "abandoned kill", audit.OK)},
	{"is not counted twice", first(2, audit.NotCounted, audit.OK)},
	{"is not counted once, fails", first(1, audit.NotCounted, audit.Failed)},
	// not always: beside an abandoned handler that stays, it is not counted
	{"crashes another process", first(15, audit.Crashed, audit.OK)},
	{"crashes another process twice", first(2, audit.Crashed, audit.OK)},
}

var simKillers = []simBehaviour{
	{"kills", always("kill")},
	{"kills three times", first(3, "kill", audit.OK)},
	{"is abandoned, then kills", always("abandoned kill")},
}
