package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
)

// Checkup examines queues, their data in the store, and their broker.
type Checkup struct {
	Conn  *amqp.Connection
	Need  inspect.Need   // without a Queue
	Store *counter.Admin // nil: it is not asked about the queues
	Named bool           // an operator named the queues; else they were listed
	Probe bool           // prove facts on scratch queues where that is possible

	mute    atomic.Bool      // the store did not reply
	slow    atomic.Int32     // queues whose records were not read
	mu      sync.Mutex       // guards listing
	listing *inspect.Listing // nil: not listed yet
}

// Report has the findings about a queue, the broker or the store.
type Report struct {
	Subject  string // queue, broker or store
	Name     string
	VHost    string            // of a queue
	Proven   []string          // the abilities that a probe showed, a sentence each
	Findings []inspect.Finding // errors first
	Err      error             // why it was not examined, or not in full; nil: it was
}

// together is how many queues are examined at the same time: each takes about ten requests to the management API.
const together = 4

// Queues examines queues, several at a time unless it probes, and shows their reports in their order. A queue that was
// listed and is gone has no report. If a queue cannot be examined, its report has an Err and the others are examined.
// Queues ends early, and returns why, if show fails, if ctx ends or if the connection is closed.
func (c *Checkup) Queues(ctx context.Context, names []string, show func(Report) error) error {
	ctx, stop := context.WithCancel(ctx)
	var all panics.Group
	defer all.Wait() //nolint:errcheck // none fails
	defer stop()
	begun := make([]chan *Report, 0, len(names))
	begin := func(name string) {
		examined := make(chan *Report, 1)
		begun = append(begun, examined)
		all.Go(func() error {
			defer close(examined) // also if it panics
			examined <- c.report(ctx, name)
			return nil
		})
	}
	ahead := together
	if c.Probe {
		ahead = 1
	}
	for n := range names {
		for len(begun) < min(n+ahead, len(names)) {
			begin(names[len(begun)])
		}
		r := <-begun[n]
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case r == nil:
			continue
		case r.Err != nil && c.Conn.IsClosed():
			return r.Err
		}
		if err := show(*r); err != nil {
			return err
		}
	}
	return nil
}

// report examines a queue. It is nil if the queue was listed and is gone.
func (c *Checkup) report(ctx context.Context, name string) *Report {
	r, err := c.queue(ctx, name)
	switch missing := errors.Is(err, broker.ErrNotFound); {
	case missing && !c.Named:
		return nil
	case missing:
		r.Findings = []inspect.Finding{inspect.Say(inspect.CodeNoQueue, inspect.Vars{
			"vhost": fmt.Sprintf("%q", r.VHost), "queue": shell.Operands(name),
		})}
	case err != nil:
		r.Err = err
	}
	r.Findings = explained(r.Findings)
	r = r.sorted()
	return &r
}

// explained omits that a queue has no consumer where another finding says why.
func explained(all []inspect.Finding) []inspect.Finding {
	why := func(f inspect.Finding) bool { return f.Code == "paused" || f.Code == "partition-idle" }
	if !slices.ContainsFunc(all, why) {
		return all
	}
	return slices.DeleteFunc(all, func(f inspect.Finding) bool { return f.Code == inspect.CodeNoConsumer })
}

// Broker examines the broker, its alarms and the delay queues of the virtual host.
func (c *Checkup) Broker(ctx context.Context) Report {
	release, _ := c.Conn.Properties["version"].(string)
	var alarms, lane []inspect.Finding
	var asking panics.Group // side by side: an API that hangs takes its whole time from each
	asking.Go(func() error { alarms = Alarms(ctx, c.Conn, c.Need); return nil })
	asking.Go(func() (err error) { lane, err = c.delayQueues(ctx); return err })
	err := asking.Wait()
	if slices.ContainsFunc(alarms, func(f inspect.Finding) bool { return f.Code == "alarms-unknown" }) {
		lane = slices.DeleteFunc(lane, func(f inspect.Finding) bool { return f.Code == "management-unreachable" })
	}
	found := slices.Concat(alarms, lane)
	return Report{Subject: "broker", Name: "RabbitMQ " + release, Findings: found, Err: err}.sorted()
}

// StoreReport reports the findings about the store at an address.
func StoreReport(at string, found []counter.Finding, more ...inspect.Finding) Report {
	r := Report{Subject: "store", Name: at}
	for _, f := range found {
		severity := inspect.Warning
		if f.Severe {
			severity = inspect.Error
		}
		r.Findings = append(r.Findings, inspect.Finding{Code: f.Code, Severity: severity, Seen: f.Seen, Impact: f.Impact,
			Fix: f.Fix})
	}
	r.Findings = append(r.Findings, more...)
	return r.sorted()
}

// Errors counts the findings that are errors.
func (r Report) Errors() (n int) {
	for _, f := range r.Findings {
		if f.Severe() {
			n++
		}
	}
	return n
}

func (r Report) sorted() Report {
	slices.SortStableFunc(r.Findings, func(a, b inspect.Finding) int { return int(b.Severity) - int(a.Severity) })
	return r
}

func (c *Checkup) queue(ctx context.Context, name string) (Report, error) {
	r := Report{Subject: "queue", Name: name, VHost: c.Conn.Config.Vhost}
	need := c.Need.For(name)
	findings, err := Examine(ctx, c.Conn, need)
	if errors.Is(err, broker.ErrNotFound) {
		if n, _ := broker.PartitionsOf(ctx, c.Conn, name); n > 0 { // a probe would prove one scratch queue, and no partition
			need.Ordered = true
			if r.Findings, err = inspect.InspectPartitions(ctx, c.Conn, need, n, Examine); err != nil {
				return r, err
			}
			var shares []inspect.Finding
			if !slices.ContainsFunc(r.Findings, func(f inspect.Finding) bool { return f.Code == inspect.CodeNodeDown }) {
				shares, err = c.shared(ctx, name, n)
			}
			kept, unread := c.kept(ctx, r.VHost, name)
			r.Findings, r.Err = slices.Concat(r.Findings, kept, shares), unread
			return r, err
		}
	}
	if err != nil {
		return r, err
	}
	if c.Probe {
		proof, err := Probe(ctx, c.Conn, need)
		if err != nil {
			return r, err
		}
		r.Proven, findings = proof.Proven, append(findings, proof.Findings...)
	} else if c.Named { // it was judged as one that consumers retry from
		takes, err := c.takesDeadLetters(ctx, name, findings)
		if err != nil {
			return r, err
		}
		if takes != nil {
			findings = []inspect.Finding{*takes}
		}
	}
	kept, unread := c.kept(ctx, r.VHost, name)
	r.Findings, r.Err = append(findings, kept...), unread
	return r, nil
}

// ownDeadLetters are the findings about a queue without a known dead-letter exchange. A queue that takes the dead
// letters of others needs none.
var ownDeadLetters = []string{inspect.CodeNoDeadLetterExchange, inspect.CodeDeadLetterUnproven}

// takesDeadLetters returns the finding about a queue without a known dead-letter exchange that takes the dead letters
// of others; nil: of any other queue.
func (c *Checkup) takesDeadLetters(ctx context.Context, name string, all []inspect.Finding) (*inspect.Finding, error) {
	if !slices.ContainsFunc(all, func(f inspect.Finding) bool { return slices.Contains(ownDeadLetters, f.Code) }) {
		return nil, nil
	}
	owners, err := c.owners(ctx, name)
	if err != nil || len(owners) == 0 {
		return nil, err
	}
	var names []string
	for _, o := range owners {
		names = append(names, fmt.Sprintf("%q", o))
	}
	f := inspect.Say("takes-dead-letters", inspect.Vars{"sources": strings.Join(names, ", ")})
	f.Commands = []string{"strikes doctor " + shell.Operands(owners...)}
	return &f, nil
}

// owners returns the queues that dead-letter to the named one. Without the management API only its name can tell.
func (c *Checkup) owners(ctx context.Context, name string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listing == nil && c.Need.Management != "" {
		if all, err := List(ctx, c.Conn, c.Need); err == nil {
			c.listing = &all
		}
	}
	if c.listing != nil {
		return c.listing.DeadLetters[name], nil
	}
	owner, is := strings.CutSuffix(name, ".dlq")
	if !is {
		return nil, nil
	}
	if exists, _, err := broker.FindQueue(ctx, c.Conn, owner); err != nil || exists != broker.Yes {
		return nil, broker.UnlessRefused(err)
	}
	return []string{owner}, nil
}

// Plans returns one plan for each queue, in their order, and one for each partition of a partitioned queue. It shows
// each as soon as it is made, and ends if show fails. If several plans need a step, only the first has it. A queue that
// takes the dead letters of others is left as it is.
func (c *Checkup) Plans(ctx context.Context, queues []string, show func(Plan) error) (all []Plan, err error) {
	planned := map[string]bool{}
	for _, queue := range queues {
		names := []string{queue}
		if found, _, _ := broker.FindQueue(ctx, c.Conn, queue); found == broker.No {
			if n, _ := broker.PartitionsOf(ctx, c.Conn, queue); n > 0 {
				names = broker.Partitions(queue, n)
			}
		}
		for _, name := range names {
			need := c.Need.For(name)
			need.Ordered = need.Ordered || name != queue
			plan, err := makePlan(ctx, c.Conn, need, inspect.RulesFor(name))
			switch {
			case errors.Is(err, broker.ErrNotFound) && name != queue:
				plan = Plan{Queue: name, Named: queue, Fixes: []Fix{{Finding: inspect.MissingPartition(name)}}}
			case err != nil:
				return nil, err
			}
			takes, err := c.takesDeadLetters(ctx, name, plan.findings())
			if err != nil {
				return nil, err
			}
			if takes != nil {
				plan.Fixes = []Fix{{Finding: *takes}}
			}
			plan.earlier = maps.Clone(planned)
			for _, s := range plan.Steps() {
				planned[s.text] = true
			}
			if err := show(plan); err != nil {
				return nil, err
			}
			all = append(all, plan)
		}
	}
	return all, nil
}

const (
	// storeTimeout bounds the questions about one queue.
	storeTimeout = 5 * time.Second
	// mostSlow is after how many queues whose records cannot be read in time the store is not asked any more.
	mostSlow = 3
)

// kept judges the data of a queue in the store. A store that does not reply is not asked about the next queue. That is
// a finding about the store. One that replies may still take too long to read the records of a queue: see Report.Err.
func (c *Checkup) kept(ctx context.Context, vhost, queue string) (found []inspect.Finding, unread error) {
	if c.Store == nil || c.mute.Load() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	state, err := c.Store.State(ctx, vhost, queue)
	if err != nil {
		return c.unread(err), nil
	}
	if state.Paused != nil {
		found = append(found, judgePause(state.Paused, queue))
	}
	if state.Breaker.Stops() {
		found = append(found, judgeProgress(state.Breaker, queue))
	}
	outage, err := c.breaker(ctx, state, vhost, queue)
	switch {
	case errors.Is(err, counter.ErrForeign):
		return append(found, c.unread(err)...), nil
	case err == nil:
	case c.slow.Add(1) < mostSlow:
		err = fmt.Errorf("its records in the store: %w", err)
	default:
		c.mute.Store(true)
		err = fmt.Errorf("its records in the store, so those of further queues are not read: %w", err)
	}
	return append(found, outage...), err
}

// unread returns a finding for a key that another program wrote. Of any other error it notes that the store is away.
func (c *Checkup) unread(err error) []inspect.Finding {
	if errors.Is(err, counter.ErrForeign) {
		return []inspect.Finding{inspect.Say("store-foreign", inspect.Vars{"reason": err})}
	}
	c.mute.Store(true)
	return nil
}

// judgePause reports a queue that an operator paused, or that is paused for an exhausted message.
func judgePause(p *counter.Pause, queue string) inspect.Finding {
	code, by, id := "paused", "", ""
	if p.By != "" {
		by = ", by " + printable.Line(p.By, 80)
	}
	if p.Holding != nil {
		code, id = "paused/message", printable.Name(p.Holding.ID)
	}
	return inspect.Say(code, inspect.Vars{
		"at": p.At.Format(time.RFC3339), "by": by, "why": printable.Line(p.Why, 200), "queue": shell.Operands(queue),
		"id": id,
	})
}

// judgeProgress reports a queue in which no message succeeds.
func judgeProgress(b counter.Breaker, queue string) inspect.Finding {
	why := ""
	if b.Reason != "" {
		why = ", the last with: " + printable.Line(b.Reason, 200)
	}
	return inspect.Say("no-progress", inspect.Vars{
		"since": b.Doubt.UTC().Format(time.RFC3339), "n": len(b.Streak), "why": why, "queue": shell.Operands(queue),
	})
}

// delayQueues examines the delay queues that all queues of the virtual host share. Without a lane it finds nothing.
// Only the management API shows policies.
func (c *Checkup) delayQueues(ctx context.Context) ([]inspect.Finding, error) {
	found, wrong, unread, err := broker.DelayQueuesOf(ctx, c.Conn)
	if err != nil {
		return nil, fmt.Errorf("examining the delay queues: %w", err)
	}
	if found != broker.Yes {
		return nil, nil
	}
	var all []inspect.Finding
	for _, one := range wrong {
		all = append(all, inspect.Say("delay-queue-broken", inspect.Vars{"seen": one}))
	}
	for _, one := range unread {
		all = append(all, inspect.Say("delay-queue-unread", inspect.Vars{"seen": one}))
	}
	api, err := c.Need.API()
	for _, b := range broker.DelayQueues {
		if err != nil || api == nil {
			break
		}
		q, failed := api.Queue(ctx, c.Conn.Config.Vhost, b.Name)
		if failed != nil && !errors.Is(failed, broker.ErrNoObject) {
			err = fmt.Errorf("examining the delay queues, queue %q: %w", b.Name, failed)
		}
		for _, key := range changedByPolicy(b, q.Policy) {
			all = append(all, inspect.Say("delay-queue-policy", inspect.Vars{"queue": fmt.Sprintf("%q", b.Name), "key": key,
				"value": q.Policy[key]}))
		}
	}
	if err != nil {
		all = append(all, inspect.Say("management-unreachable", inspect.Vars{"reason": err}))
	}
	return all, ctx.Err()
}

// changedByPolicy returns the keys of a policy that change how a delay queue works. Other keys do nothing, because the
// delay queue's arguments have precedence. Of two TTLs the shorter one applies.
func changedByPolicy(b broker.DelayQueue, policy amqp.Table) (keys []string) {
	for _, argument := range []string{
		broker.ArgDeadLetterKey, broker.ArgExpires, broker.ArgMaxLength, broker.ArgMaxLengthBytes,
	} {
		key := broker.PolicyKey(argument)
		if _, set := policy[key]; set {
			keys = append(keys, key)
		}
	}
	key := broker.PolicyKey(broker.ArgTTL)
	if ttl, set := policy[key]; set && broker.Integer(ttl) < b.TTL.Milliseconds() {
		keys = append(keys, key)
	}
	return keys
}
