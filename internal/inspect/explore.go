package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/internal/broker"
)

// maxNodes bounds how many exchanges and queues of a dead-letter route are looked up, maxSources how many exchanges its
// queue gets messages from.
const (
	maxNodes   = 64
	maxSources = 32
)

// explore follows the dead letters of f, and looks up their exchanges and queues. If they reach no queue or come back,
// it also looks for the exchange and the dead-letter queue with the usual names: the plan that fixes the route depends
// on them, and on where the exchange leads.
func (g Gatherer) explore(ctx context.Context, f *Facts) error {
	f.Known = Graph{Exchanges: map[string]Exchange{}, Queues: map[string]*broker.Queue{}}
	var err error
	f.Route, err = g.follow(ctx, f, func() Route { return f.Known.Trace(f.Queue) })
	if err != nil || !g.closely || len(f.Route.wanted) > 0 || len(f.Route.Landings) > 0 && len(f.Route.Loops) == 0 {
		return err
	}
	exchange, queue := broker.ExchangeFor(f.Name), broker.DeadLetterQueueFor(f.Name)
	if broker.CheckName(queue) != nil {
		return nil //nolint:nilerr // a name that no queue has is no error
	}
	if _, looked := f.Known.Queues[queue]; !looked {
		if err := g.lookUp(ctx, f, Node{Name: queue}); err != nil {
			return err
		}
	}
	_, err = g.follow(ctx, f, func() Route { return f.Known.TraceThrough(f.Queue, exchange) })
	return err
}

// follow looks up what a trace wants to know, until it wants no more or too much is looked up.
func (g Gatherer) follow(ctx context.Context, f *Facts, trace func() Route) (Route, error) {
	for {
		r := trace()
		if len(r.wanted) == 0 {
			return r, nil
		}
		for _, n := range r.wanted {
			if len(f.Known.Exchanges)+len(f.Known.Queues) >= maxNodes {
				r.blind(fmt.Sprintf("the dead-letter route has more than %d exchanges and queues; the rest was not looked up",
					maxNodes))
				return r, nil
			}
			if err := g.lookUp(ctx, f, n); err != nil {
				return r, fmt.Errorf("look up the %s of the dead-letter route: %w", n, err)
			}
		}
	}
}

// lookUp adds a node to what is known. Without the API it asks AMQP, which knows less.
func (g Gatherer) lookUp(ctx context.Context, f *Facts, n Node) error {
	switch {
	case n == (Node{}):
		f.Known.own = anyKey()
		if f.asks() {
			f.Known.own = g.ownKeys(ctx, f)
		}
		return nil
	case n.Exchange:
		x, err := g.lookUpExchange(ctx, f, n.Name)
		f.Known.Exchanges[n.Name] = x
		return err
	case f.asks():
		q, err := g.askQueue(ctx, f, n.Name)
		if err == nil {
			f.Known.Queues[n.Name] = q
			return nil
		}
		f.silent(err)
	}
	q, err := g.readQueue(ctx, f, n.Name)
	f.Known.Queues[n.Name] = q
	return err
}

// askQueue asks the API. It returns nil for a queue that does not exist.
func (g Gatherer) askQueue(ctx context.Context, f *Facts, name string) (*broker.Queue, error) {
	q, err := g.api.Queue(ctx, f.VHost, name)
	if errors.Is(err, broker.ErrNoObject) {
		return nil, nil //nolint:nilnil // it is known that there is none
	}
	if err != nil {
		return nil, err
	}
	q.Version = f.Version
	f.Policies.Apply(&q)
	return &q, nil
}

// readQueue is askQueue over AMQP.
func (g Gatherer) readQueue(ctx context.Context, f *Facts, name string) (*broker.Queue, error) {
	q := &broker.Queue{Version: f.Version, VHost: f.VHost, Name: name}
	found, _, err := broker.FindQueue(ctx, g.conn, name)
	if found == broker.No {
		return nil, nil //nolint:nilnil // it is known that there is none
	}
	if err := broker.UnlessRefused(err); err != nil {
		return q, err
	}
	if err := q.Read(ctx, g.conn); !errors.Is(err, broker.ErrNotFound) {
		return q, err
	}
	return nil, nil //nolint:nilnil // deleted since it was found
}

// ownKeys returns the routing keys that the bindings of the queue let through. It does not know keys of deleted
// bindings. It assumes that nothing is published to the queue's own dead-letter exchange.
func (g Gatherer) ownKeys(ctx context.Context, f *Facts) keySet {
	whole := anyKey()
	all, err := g.api.BindingsTo(ctx, f.VHost, f.Name)
	if err != nil {
		f.silent(err)
		return whole
	}
	kinds := map[string]string{"": "direct"}
	own := keySet{asked: true}
	for _, b := range all {
		if f.OwnsExchange(b.Source) {
			continue
		}
		kind, asked := kinds[b.Source]
		if !asked && len(kinds) > maxSources {
			return whole
		}
		if !asked {
			x, err := g.api.Exchange(ctx, f.VHost, b.Source)
			if err != nil {
				f.silent(err)
				return whole
			}
			kind = x.Type
			kinds[b.Source] = kind
		}
		if kind != "direct" && kind != "topic" {
			return whole
		}
		own.one = append(own.one, Exchange{Kind: kind}.pattern(b))
	}
	return own
}
