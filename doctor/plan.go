package doctor

import (
	"context"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/shell"
)

// Plan has the steps that fix the findings of a queue. They declare missing parts of its dead-letter route, and set
// policies. The only thing that they delete is a binding that leads dead letters back. They do not declare again what
// exists, because RabbitMQ refuses other arguments.
type Plan struct {
	Fixes []Fix // of all findings, in their order
	queue string
}

// Fix has the steps for one finding.
type Fix struct {
	Finding inspect.Finding
	Steps   []Step   // none: a person has to decide, or to declare the queue again
	Choice  *Choice  // nil: there is none
	Refused []string // why the dead-letter queue that exists is not used
}

// Choice is the type of a missing exchange. Neither the queue nor a policy shows it, and the program that declares
// the exchange would be refused if it were another.
type Choice struct {
	Exchange string
	Kinds    []string // that can take every dead letter
}

// Steps are those of all fixes, each once, in their order.
func (p Plan) Steps() (steps []Step) {
	seen := map[string]bool{}
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

// plan returns the plan for the findings. kind is the type of a missing exchange, or empty if it was not chosen. One
// policy has all settings, because a second one would undo the first.
func (p patient) plan(findings []inspect.Finding, need inspect.Need, kind string) Plan {
	changes := amqp.Table{}
	for _, x := range findings {
		changes = broker.Merge(changes, p.changes(x.Code, need))
	}
	policy, canSet := p.setPolicy(p.Queue, nil, changes)
	plan := Plan{queue: need.Queue}
	for _, x := range findings {
		fix := Fix{Finding: x}
		switch {
		case len(p.changes(x.Code, need)) == 0:
			p.fix(&fix, kind)
		case !canSet:
		default:
			if exchange, moves := changes["dead-letter-exchange"].(string); moves {
				p.route(&fix, exchange, "fanout") // before anything is sent there
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

// fix plans what fixes a finding that the policy of the queue does not fix.
func (p patient) fix(fix *Fix, kind string) {
	exchange, _ := p.DeadLetterExchange()
	key, fixed := p.DeadLetterKey()
	switch fix.Finding.Code {
	case inspect.CodeLoop:
		p.breakLoop(fix)
	case inspect.CodeExchangeMissing:
		fix.Choice = &Choice{Exchange: exchange, Kinds: []string{"fanout", "topic"}}
		if fixed { // else the keys of its dead letters are not known
			fix.Choice.Kinds = append(fix.Choice.Kinds, "direct")
		}
		if kind == "" && p.OwnsExchange(exchange) {
			kind = "fanout"
		}
		if slices.Contains(fix.Choice.Kinds, kind) {
			p.route(fix, exchange, kind)
		}
	case inspect.CodeUnbound:
		if p.Exchange.Alternate == "" {
			p.end(fix, exchange, p.Exchange.Kind)
		}
	case inspect.CodeQueueMissing:
		if broker.CheckName(key) == nil {
			p.declareEnd(fix, key)
		}
	default:
		for _, q := range p.targets() {
			if q.Name == fix.Finding.About {
				fix.Steps, _ = p.keep(q)
			}
		}
	}
}

func (p patient) targets() []broker.Queue {
	if p.Vitals == nil {
		return nil
	}
	return p.Vitals.Targets
}

// route declares an exchange of a type unless it exists, and binds a dead-letter queue to it.
func (p patient) route(fix *Fix, exchange, kind string) {
	have := p.Known.Exchanges[exchange]
	if have.Exists != broker.Yes {
		fix.Steps = append(fix.Steps, p.declareExchange(exchange, kind))
		p.end(fix, exchange, kind)
		return
	}
	if len(p.Known.TraceThrough(p.Queue, exchange).Loops) > 0 {
		fix.refuse("the exchange %q exists, and leads back to the queue", exchange)
		return
	}
	p.end(fix, exchange, have.Kind)
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
	queue := broker.DeadLetterQueueFor(p.Name)
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
	end := p.planned(queue)
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

// breakLoop removes the bindings that lead back, if that breaks every loop, and first makes dead letters reach a
// queue. It does nothing if other messages may need them.
func (p patient) breakLoop(fix *Fix) {
	now, _ := p.SortLoops()
	for _, l := range now {
		if !p.OwnsExchange(l.Exchange()) || l.LastQueue() != (inspect.Node{}) || l.Last.Properties == "" || p.API == nil {
			return
		}
	}
	if len(p.Route.Landings) == 0 {
		exchange, _ := p.DeadLetterExchange()
		p.end(fix, exchange, p.Exchange.Kind)
	}
	for _, l := range now {
		if len(fix.Refused) == 0 {
			fix.Steps = append(fix.Steps, p.unbind(l))
		}
	}
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
		switch {
		case len(fix.Steps) > 0:
			f.Repair = "strikes doctor --fix " + shell.Operands(p.queue)
		case fix.Choice != nil:
			f.Repair = "strikes doctor --fix --exchange-type TYPE " + shell.Operands(p.queue)
		}
		all = append(all, f)
	}
	return all
}

// MakePlan examines need.Queue and plans the steps that fix its findings. kind is the type of a missing exchange. If
// kind is empty, it is fanout for the exchange that strikes declares, else a person has to choose.
func MakePlan(ctx context.Context, conn *amqp.Connection, need inspect.Need, kind string) (Plan, error) {
	return makePlan(ctx, conn, need, kind, inspect.RulesFor(need.Queue))
}

// makePlan examines need.Queue closely by some rules.
func makePlan(ctx context.Context, conn *amqp.Connection, need inspect.Need, kind string,
	rules []inspect.Rule) (Plan, error) {
	need.Closely = true
	f, err := inspect.Gather(ctx, conn, need, rules)
	if err != nil {
		return Plan{}, err
	}
	return patient{f}.plan(inspect.Judge(rules, f, need), need, kind), nil
}

// Do takes the Steps in turn, tells each, and then examines the queue: left has the findings that the steps were for
// and that are still there. It ends at the first step that fails, and may be repeated.
func (p Plan) Do(ctx context.Context, conn *amqp.Connection, need inspect.Need,
	tell func(Step)) (left []inspect.Finding, err error) {
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
	return p.left(ctx, conn, need)
}

// left waits until the management API shows that the findings that the steps were for are gone, for 15 s at most, and
// returns those that are not.
func (p Plan) left(ctx context.Context, conn *amqp.Connection, need inspect.Need) ([]inspect.Finding, error) {
	return broker.Settled(ctx, func(ctx context.Context) ([]inspect.Finding, bool, error) {
		now, err := MakePlan(ctx, conn, need, "")
		left := slices.DeleteFunc(now.findings(), func(f inspect.Finding) bool { return !p.promised(f) })
		return left, len(left) == 0, err
	})
}

// promised reports whether the steps were for a finding.
func (p Plan) promised(f inspect.Finding) bool {
	return slices.ContainsFunc(p.Fixes, func(x Fix) bool {
		return len(x.Steps) > 0 && x.Finding.Code == f.Code && x.Finding.About == f.About
	})
}
