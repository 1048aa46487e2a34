package doctor

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/shell"
)

// Plan has the steps that fix the findings of a queue. They declare missing parts of its dead-letter route, and set
// policies. They delete nothing, and do not declare existing queues and exchanges again, because RabbitMQ refuses other
// arguments.
type Plan struct {
	Queue string
	Fixes []Fix  // of all findings, in their order
	Named string // Queue, or the partitioned queue if Queue is a partition

	need    inspect.Need
	earlier map[string]bool // the texts of the steps of earlier plans
}

// Shares reports whether a plan before this one has some of its steps.
func (p Plan) Shares() bool {
	return slices.ContainsFunc(p.Fixes, func(x Fix) bool {
		return slices.ContainsFunc(x.Steps, func(s Step) bool { return p.earlier[s.text] })
	})
}

// Fix has the steps for one finding.
type Fix struct {
	Finding inspect.Finding
	Steps   []Step   // none: a person has to decide, or to declare the queue again
	Refused []string // why the dead-letter queue that exists is not used
}

// Steps are those of all fixes, each once, in their order, without those of earlier plans.
func (p Plan) Steps() (steps []Step) {
	seen := maps.Clone(p.earlier)
	for _, f := range p.Fixes {
		for _, s := range f.Steps {
			if !seen[s.text] {
				seen[s.text] = true
				steps = append(steps, s)
			}
		}
	}
	return steps
}

// patient is a queue to be fixed.
type patient struct{ inspect.Facts }

// plan returns the plan for the findings. One policy has all settings, because a second one would undo the first.
func (p patient) plan(findings []inspect.Finding, need inspect.Need) Plan {
	changes := amqp.Table{}
	for _, x := range findings {
		changes = broker.Merge(changes, p.changes(x.Code, need))
	}
	policy, canSet := p.setPolicy(p.Queue, nil, changes)
	plan := Plan{Queue: need.Queue, need: need, Named: p.Named(), earlier: map[string]bool{}}
	for _, x := range findings {
		fix := Fix{Finding: x}
		switch {
		case len(p.changes(x.Code, need)) == 0:
			p.fix(&fix)
		case !canSet:
		default:
			if exchange, moves := changes["dead-letter-exchange"].(string); moves {
				p.route(&fix, exchange) // before anything is sent there
				canSet = len(fix.Refused) == 0
			}
			if canSet {
				fix.Steps = append(fix.Steps, policy)
			} else {
				fix.Steps = nil
			}
		}
		plan.Fixes = append(plan.Fixes, fix)
	}
	return plan
}

// fix plans the steps for a finding that the policy of the queue does not fix.
func (p patient) fix(fix *Fix) {
	exchange, _ := p.DeadLetterExchange()
	key, _ := p.DeadLetterKey()
	switch fix.Finding.Code {
	case inspect.CodeExchangeMissing:
		if p.OwnsExchange(exchange) { // of another one the type is not known
			p.route(fix, exchange)
		}
	case inspect.CodeUnbound:
		p.end(fix, exchange, p.Exchange.Kind)
	case inspect.CodeQueueMissing:
		if broker.CheckName(key) == nil {
			p.declareEnd(fix, key)
		}
	default:
		var targets []broker.Queue
		if p.Vitals != nil {
			targets = p.Vitals.Targets
		}
		for _, q := range targets {
			// one that dead-letters on is a delay, unless it does so by the policy of the queue itself, by mistake
			if _, on := q.DeadLetterExchange(); q.Name == fix.Finding.About && (!on || q.PolicyName == p.PolicyName) {
				fix.Steps, _ = p.keep(q)
			}
		}
	}
}

// route declares a fanout exchange unless it exists, and binds a dead-letter queue to it.
func (p patient) route(fix *Fix, exchange string) {
	have := p.Known.Exchanges[exchange]
	if have.Exists != broker.Yes {
		fix.Steps = append(fix.Steps, p.declareExchange(exchange))
		p.end(fix, exchange, "fanout")
		return
	}
	switch through := p.Known.TraceThrough(p.Queue, exchange); {
	case len(through.Loops) > 0:
		fix.refuse("the exchange %q exists, and leads back to the queue", exchange)
	case len(through.Landings) == 0: // a second queue would get every dead letter too
		p.end(fix, exchange, have.Kind)
	}
}

// end binds a dead-letter queue to the exchange of this type, and declares it unless it exists.
func (p patient) end(fix *Fix, exchange, kind string) {
	key, fixed := p.DeadLetterKey()
	switch {
	case kind == "fanout", kind == "headers": // a binding without arguments takes every message
		key = ""
	case kind == "topic" && !fixed:
		key = "#"
	case kind == "topic", kind == "direct" && fixed:
	default:
		fix.refuse("the exchange %q is %s: no binding takes every dead letter", exchange, kind)
		return
	}
	queue := inspect.EndOf(exchange) // one for all queues that share the exchange, or each dead letter would be in all
	if err := broker.CheckName(queue); err != nil {
		fix.refuse("the name of the dead-letter queue: %v", err)
		return
	}
	p.declareEnd(fix, queue)
	if len(fix.Refused) == 0 {
		fix.Steps = append(fix.Steps, p.bind(queue, exchange, key))
	}
}

// declareEnd declares a dead-letter queue unless it exists, and makes sure that it keeps dead letters.
func (p patient) declareEnd(fix *Fix, queue string) {
	have := p.Known.Queues[queue]
	end := broker.Queue{VHost: p.VHost, Version: p.Version, Name: queue, PolicyKnown: true,
		Declared: broker.Declared{Type: broker.Quorum, Durable: true, Args: broker.DeadLetterArguments()}}
	p.Policies.Apply(&end) // as it would get them
	if have != nil {
		end = *have
	}
	var steps []Step
	if steps, fix.Refused = p.keep(end); len(fix.Refused) > 0 {
		fix.Steps = nil
		return
	}
	if fix.Steps = append(fix.Steps, steps...); have == nil {
		fix.Steps = append(fix.Steps, p.declareQueue(queue))
	}
}

func (f *Fix) refuse(format string, args ...any) {
	f.Steps, f.Refused = nil, append(f.Refused, fmt.Sprintf(format, args...))
}

// findings are those that the plan is for, with the commands that fix them.
func (p Plan) findings() (all []inspect.Finding) {
	for _, fix := range p.Fixes {
		f := fix.Finding
		for _, s := range fix.Steps {
			if line := s.Curl(); line != "" {
				f.Commands = append(f.Commands, line)
			}
		}
		if len(fix.Steps) > 0 {
			f.Repair = "strikes doctor --fix " + shell.Operands(p.Named)
		}
		all = append(all, f)
	}
	return all
}

// makePlan examines need.Queue closely by some rules, and plans the steps that fix its findings.
func makePlan(ctx context.Context, conn *amqp.Connection, need inspect.Need, rules []inspect.Rule) (Plan, error) {
	need.Closely = true
	f, err := inspect.Gather(ctx, conn, need, rules)
	if err != nil {
		return Plan{}, err
	}
	return patient{f}.plan(inspect.Judge(rules, f, need), need), nil
}

// Do takes the Steps in turn, tells each, and then examines the queue: left has the findings that the steps were for
// and that are still there. It ends at the first step that fails, and may be repeated.
func (p Plan) Do(ctx context.Context, conn *amqp.Connection, tell func(Step)) (left []inspect.Finding, err error) {
	steps := p.Steps()
	for _, s := range steps {
		if err := s.Do(ctx, conn); err != nil {
			return nil, err
		}
		if tell != nil {
			tell(s)
		}
	}
	if len(steps) == 0 {
		return nil, nil
	}
	// The management API may show for 15 s at most what was there before.
	return broker.Settled(ctx, func(ctx context.Context) ([]inspect.Finding, bool, error) {
		now, err := Examine(ctx, conn, p.need)
		left := slices.DeleteFunc(now, func(f inspect.Finding) bool {
			return !slices.ContainsFunc(p.Fixes, func(x Fix) bool {
				return len(x.Steps) > 0 && x.Finding.Code == f.Code && x.Finding.About == f.About
			})
		})
		return left, len(left) == 0, err
	})
}

// changes returns the keys of a policy that fix the findings of a code.
func (p patient) changes(code string, need inspect.Need) amqp.Table {
	_, strategy := p.Args[broker.ArgStrategy]
	atLeastOnce := amqp.Table{}
	if p.Type == broker.Quorum && (!strategy || p.DeadLetterStrategy() == "at-least-once") {
		atLeastOnce = amqp.Table{"dead-letter-strategy": "at-least-once", "overflow": "reject-publish"}
	}
	switch code {
	case inspect.CodeNoDeadLetterExchange:
		if p.Type == broker.Stream { // RabbitMQ applies no dead-letter policy to a stream
			return nil
		}
		return broker.Merge(amqp.Table{"dead-letter-exchange": broker.ExchangeFor(p.Named())}, atLeastOnce)
	case inspect.CodeTail, inspect.CodeLimitLow, inspect.CodeLimitTight:
		if want := need.SpareLimit(); p.Type == broker.Quorum && !p.LimitFixed(want) {
			return amqp.Table{"delivery-limit": want}
		}
	case inspect.CodeAtMostOnce:
		return atLeastOnce
	case inspect.CodeDropsHead:
		return amqp.Table{"overflow": "reject-publish"}
	}
	return nil
}

// setPolicy gives a queue a policy of its own: the definition of its present policy, which no longer applies, without
// some keys and with others. Its pattern matches no other queue, and the policies in force on others stay. ok is
// false if the present policy is not known, or if an operator's policy undoes the change.
func (p patient) setPolicy(q broker.Queue, without []string, set amqp.Table) (s Step, ok bool) {
	if p.API == nil || !q.PolicyKnown || len(set) == 0 {
		return Step{}, false
	}
	pattern := "^" + regexp.QuoteMeta(q.Name) + "$"
	definition, priority := amqp.Table{}, 0
	for _, have := range p.Policies.User {
		if have.Name == q.PolicyName {
			definition = broker.Merge(amqp.Table(have.Definition))
		}
		priority = max(priority, have.Priority)
	}
	var removed []string
	for _, key := range without {
		if _, had := definition[key]; had && set[key] == nil {
			removed = append(removed, ", without "+key)
		}
		delete(definition, key)
	}
	definition = broker.Merge(definition, set)
	name := "strikes." + q.Name
	for slices.ContainsFunc(p.Policies.User, func(have broker.Policy) bool {
		return have.Name == name && have.Pattern != pattern
	}) {
		name += ".queue" // the name is taken, for other queues
	}
	effective := broker.JoinPolicies(definition, q.OperatorPolicy)
	for k, v := range set {
		if effective[k] != v {
			return Step{}, false
		}
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(definition)) {
		pairs = append(pairs, fmt.Sprintf("%s=%v", key, definition[key]))
	}
	body := map[string]any{"pattern": pattern, "apply-to": "queues", "priority": priority + 1, "definition": definition}
	return p.step(nil, broker.Request{Method: "PUT", Body: body, Path: []string{"policies", p.VHost, name}},
		"set the policy %q for the queue %q alone: %s%s", name, q.Name, strings.Join(pairs, ", "),
		strings.Join(removed, "")), true
}

// harmful are keys of a policy for which a dead-letter queue loses or moves dead letters.
var harmful = []string{
	"dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy", "delivery-limit", "expires", "max-length",
	"max-length-bytes",
	"message-ttl", "overflow",
}

// keep gives a dead-letter queue a policy of its own if its present one, or the one that it would get, does not let
// it keep dead letters. Policies match by name: one for "orders" is often meant for "orders.dlq" too, by mistake.
// refused has why that is not enough.
func (p patient) keep(q broker.Queue) (steps []Step, refused []string) {
	refused = unfit(q)
	if _, few := inspect.FewReturns(q); len(refused) == 0 && !few {
		return nil, nil
	}
	set := amqp.Table{"overflow": "reject-publish"}
	if q.Type == broker.Quorum {
		set = amqp.Table{"delivery-limit": int64(broker.DeadLetterLimit)}
	}
	s, ok := p.setPolicy(q, harmful, set)
	kept := q
	kept.Policy = broker.JoinPolicies(set, q.OperatorPolicy)
	if _, few := inspect.FewReturns(kept); ok && len(unfit(kept)) == 0 && (len(refused) > 0 || !few) {
		return []Step{s}, nil
	}
	return nil, refused
}

// unfit returns why a queue cannot keep dead letters; empty: it can.
func unfit(q broker.Queue) (why []string) {
	why = inspect.Temporary(q)
	if q.Type == broker.Stream {
		why = append(why, "is a stream, from which nothing can be replayed or dropped")
	}
	if ttl, expires := q.TTL(); expires {
		why = append(why, fmt.Sprintf("keeps messages for %d ms", ttl))
	}
	if q.Limited() && q.DropsHead() {
		why = append(why, fmt.Sprintf("holds %s at most, and then loses the oldest", q.LengthText()))
	}
	if further, on := q.DeadLetterExchange(); on {
		why = append(why, fmt.Sprintf("dead-letters further, to the exchange %q", further))
	}
	for i := range why {
		why[i] = fmt.Sprintf("the queue %q %s", q.Name, why[i])
	}
	return why
}
