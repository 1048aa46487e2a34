package topology

import (
	"context"
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// maxNodes bounds how many exchanges and queues of a dead-letter route are
// looked up, maxSources how many exchanges its queue gets messages from.
const (
	maxNodes   = 64
	maxSources = 32
)

// explore follows the dead letters of f, and looks up their exchanges and queues.
func (g gatherer) explore(ctx context.Context, f *facts) error {
	f.known = graph{exchanges: map[string]way{}, queues: map[string]*target{}}
	known := &f.known
	if x, set := f.DeadLetterExchange(); set && x != "" {
		known.exchanges[x] = f.way
	}
	for {
		f.route = known.trace(*f)
		if len(f.route.wanted) == 0 {
			return g.lookUpNamed(ctx, f)
		}
		for _, n := range f.route.wanted {
			if len(known.exchanges)+len(known.queues) >= maxNodes {
				f.route.blind(fmt.Sprintf("the dead-letter route has more than %d exchanges and queues; the rest was not looked up", maxNodes))
				return nil
			}
			if err := g.lookUp(ctx, f, n, known); err != nil {
				return fmt.Errorf("look up the %s of the dead-letter route: %w", n, err)
			}
		}
	}
}

// lookUpNamed looks for the dead-letter queue that Declare would make if dead
// letters reach no queue: the command that repairs the route depends on it.
func (g gatherer) lookUpNamed(ctx context.Context, f *facts) error {
	name := Spec{Queue: f.Name}.withDefaults().DeadLetterQueue
	if _, looked := f.known.queues[name]; looked || !g.closely || len(f.route.landings) > 0 || queueinfo.CheckName(name) != nil {
		return nil
	}
	return g.lookUp(ctx, f, node{name: name}, &f.known)
}

// lookUp adds a node to what is known. Without the API it asks AMQP, which knows
// less.
func (g gatherer) lookUp(ctx context.Context, f *facts, n node, known *graph) error {
	asks := g.api != nil && f.apiTrouble == ""
	switch {
	case n == (node{}):
		known.own = keySet{asked: true, any: true}
		if asks {
			known.own = g.ownKeys(ctx, f)
		}
		return nil
	case n.exchange:
		w, err := g.lookUpExchange(ctx, f, n.name)
		known.exchanges[n.name] = w
		return err
	case asks:
		t, err := g.askTarget(ctx, *f, n.name)
		if err == nil {
			known.queues[n.name] = t
			return nil
		}
		f.apiTrouble = err.Error()
	}
	t, err := g.readTarget(ctx, *f, n.name)
	known.queues[n.name] = t
	return err
}

func (g gatherer) lookUpExchange(ctx context.Context, f *facts, name string) (w way, err error) {
	w.exchange, err = queueinfo.FindExchange(ctx, g.conn, name)
	if err := queueinfo.UnlessRefused(err); err != nil || w.exchange == queueinfo.No {
		return w, err
	}
	if g.api != nil && f.apiTrouble == "" {
		f.apiTrouble = g.askWay(ctx, &w, name)
	}
	return w, ctx.Err()
}

// askTarget returns nil for a queue that does not exist.
func (g gatherer) askTarget(ctx context.Context, f facts, name string) (*target, error) {
	q, err := g.api.queue(ctx, f.VHost, name)
	if errors.Is(err, errNoSuch) {
		return nil, nil //nolint:nilnil // it is known that there is none
	}
	if err != nil {
		return nil, err
	}
	t := &target{facts{
		console: f.console,
		Queue:   queueinfo.Queue{Version: f.Version, VHost: f.VHost, Name: name, Exclusive: q.Exclusive, Declared: q.declared()},
	}}
	f.policies.apply(q, &t.facts)
	return t, nil
}

// readTarget is askTarget over AMQP.
func (g gatherer) readTarget(ctx context.Context, f facts, name string) (*target, error) {
	t := &target{facts{Queue: queueinfo.Queue{Version: f.Version, VHost: f.VHost, Name: name}}}
	found, _, err := queueinfo.Find(ctx, g.conn, name)
	if found == queueinfo.No {
		return nil, nil //nolint:nilnil // it is known that there is none
	}
	if err := queueinfo.UnlessRefused(err); err != nil {
		return t, err
	}
	err = t.Read(ctx, g.conn)
	if errors.Is(err, ErrQueueNotFound) {
		return nil, nil //nolint:nilnil // deleted since it was seen
	}
	return t, err
}

// ownKeys returns the routing keys that the bindings of the queue let through. It
// does not know keys of deleted bindings. It assumes that nothing is published to
// the queue's own dead-letter exchange.
func (g gatherer) ownKeys(ctx context.Context, f *facts) keySet {
	whole := keySet{asked: true, any: true}
	all, err := g.api.bindingsTo(ctx, f.VHost, f.Name)
	if err != nil {
		f.apiTrouble = err.Error()
		return whole
	}
	kinds := map[string]string{"": "direct"}
	own := keySet{asked: true}
	for _, b := range all {
		if f.ownExchange(b.Source) {
			continue
		}
		kind, asked := kinds[b.Source]
		if !asked && len(kinds) > maxSources {
			return whole
		}
		if !asked {
			x, err := g.api.exchange(ctx, f.VHost, b.Source)
			if err != nil {
				f.apiTrouble = err.Error()
				return whole
			}
			kind = x.Type
			kinds[b.Source] = kind
		}
		if kind != "direct" && kind != "topic" {
			return whole
		}
		own.one = append(own.one, way{kind: kind}.pattern(b))
	}
	return own
}
