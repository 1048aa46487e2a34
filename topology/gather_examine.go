package topology

import (
	"context"
	"slices"
)

// examine learns the vitals. That the API does not tell them is no failure.
func (g gatherer) examine(ctx context.Context, f *facts) error {
	if g.api == nil || f.apiTrouble != "" {
		f.examineNamed()
		return nil
	}
	v := &vitals{}
	state, err := g.api.state(ctx, f.VHost, g.queue)
	if err == nil {
		v.consumers, v.messages = state.Consumers, state.Messages
		v.persistent, v.priorities = state.Persistent, state.Priorities
	}
	if err != nil {
		f.apiTrouble = err.Error()
		return ctx.Err()
	}
	f.vitals = v
	v.back = len(f.route.loops) > 0
	v.targets = f.targets()
	return nil
}

// examineNamed looks at the dead-letter queues that AMQP can name.
func (f *facts) examineNamed() {
	v := &vitals{back: len(f.route.loops) > 0}
	for _, t := range f.targets() {
		if t.Unread == "" {
			v.targets = append(v.targets, t)
		}
	}
	if len(v.targets) > 0 {
		f.vitals = v
	}
}

// targets returns the queues that dead letters reach by themselves, not only
// after another queue rejects them.
func (f facts) targets() []target {
	var out []target
	for _, l := range f.route.landings {
		if !l.behind || l.late {
			out = append(out, *f.known.queues[l.queue])
		}
	}
	return out
}

// strays reports whether the dead letters reach exchanges but no queue.
func (f facts) strays() bool {
	r := f.route
	key, fixed := f.DeadLetterKey()
	reached := f.way.reached(key, fixed)
	return len(r.landings)+len(r.loops)+len(r.unseen)+len(r.wanted) == 0 && !r.open && len(reached) > 0 &&
		!slices.ContainsFunc(reached, func(b apiBinding) bool { return b.DestinationType == "queue" })
}
