package inspect

import (
	"slices"

	"github.com/strikesmq/strikes/internal/broker"
)

// UsualRetries is consumer.DefaultMaxRetries: how many retries a queue must allow if it is not said how many its
// consumers make.
const UsualRetries = 3

// Survey returns the errors of a queue that lists of its virtual host show, without a question about the queue
// itself. The graph must have all exchanges and queues. Survey sees no consumers, and leaves open what a policy may
// fix that the API does not show yet.
func (g Graph) Survey(of broker.Queue, product string, need Need) []Finding {
	return slices.DeleteFunc(Judge(RulesFor(of.Name), g.facts(of, product), need), func(f Finding) bool {
		return f.Severity < Error || !of.PolicyKnown && mayFix(f)
	})
}

// facts are those of a queue by the lists of its virtual host.
func (g Graph) facts(of broker.Queue, product string) Facts {
	f := Facts{Description: broker.Description{Queue: of}, Product: product, Known: g, Route: g.Trace(of)}
	f.conclude()
	f.Vitals = &Vitals{Targets: f.targets()}
	return f
}

// RulesFor returns the rules for a queue. Those of the delay queues return their messages to work queues, so the rules
// for a queue that consumers retry from do not hold.
func RulesFor(queue string) []Rule {
	if broker.IsDelayQueue(queue) {
		return nil
	}
	return All
}
