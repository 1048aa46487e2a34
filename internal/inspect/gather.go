package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// Gather learns the facts about need.Queue. It asks again, for 15 s at most, while the API shows no policy yet and one
// could turn a finding of the rules into none. It returns broker.ErrNotFound, or an error of the connection.
func Gather(ctx context.Context, conn *amqp.Connection, need Need, rules []Rule) (Facts, error) {
	if err := broker.CheckName(need.Queue); err != nil {
		return Facts{}, fmt.Errorf("queue: %w", err)
	}
	api, err := need.API()
	if err != nil {
		return Facts{}, err
	}
	f, err := broker.Settled(ctx, func(ctx context.Context) (Facts, bool, error) {
		f, err := gatherer{conn, api, need}.gather(ctx)
		return f, !f.undecided(rules, need), err
	})
	switch {
	case errors.Is(err, broker.ErrNotFound):
		err = fmt.Errorf("%w: %q in virtual host %q", broker.ErrNotFound, need.Queue, conn.Config.Vhost)
	case err != nil:
		err = fmt.Errorf("inspect queue %q: %w", need.Queue, err)
	}
	return f, err
}

// undecided reports whether a policy that the API does not show yet could turn a finding of the rules into none. A
// start does not wait for a warning.
func (f Facts) undecided(rules []Rule, need Need) bool {
	return need.Management != "" && f.Trouble == "" && !f.PolicyKnown && !f.Away &&
		slices.ContainsFunc(Judge(rules, f, need), func(x Finding) bool {
			return (x.Severity >= Error || need.Closely) && mayFix(x)
		})
}

// gatherer asks about one queue.
type gatherer struct {
	conn *amqp.Connection
	api  *broker.API // nil if there is none
	need Need
}

func (g gatherer) gather(ctx context.Context) (Facts, error) {
	d, err := broker.Look(ctx, g.conn, g.need.Queue, g.api)
	f := Facts{Description: d}
	if err != nil {
		return f, err
	}
	f.Product, _ = g.conn.Properties["product"].(string)
	if f.Exclusive {
		return f, nil
	}
	if g.need.Closely {
		if f.Of, _, err = broker.PartitionedBy(ctx, g.conn, f.Name); err != nil {
			return f, err
		}
	}
	if f.Trouble == "" {
		f.API = g.api
	}
	if err := g.explore(ctx, &f); err != nil {
		return f, err
	}
	f.conclude()
	if g.need.Closely {
		g.vitals(ctx, &f)
	}
	return f, ctx.Err()
}

// asks reports whether the management API is asked for more.
func (f *Facts) asks() bool { return f.API != nil && f.Trouble == "" }

// silent notes why the API did not answer. It is asked no more.
func (f *Facts) silent(err error) { f.Trouble = err.Error() }

// lookUpExchange asks AMQP whether the exchange exists, or the API if the user may not ask AMQP, and the API for the
// rest.
func (g gatherer) lookUpExchange(ctx context.Context, f *Facts, name string) (x Exchange, err error) {
	x.Exists, err = broker.FindExchange(ctx, g.conn, name)
	if err := broker.UnlessRefused(err); err != nil || x.Exists == broker.No || !f.asks() {
		return x, err
	}
	have, err := g.api.Exchange(ctx, f.VHost, name)
	var bindings []broker.Binding
	if err == nil {
		bindings, err = g.api.Bindings(ctx, f.VHost, name)
	}
	switch {
	case err == nil:
		x = known(have, bindings, f.Policies.User)
	case errors.Is(err, broker.ErrNoObject) && x.Exists == broker.Unknown:
		x.Exists = broker.No
	default:
		f.silent(err)
	}
	return x, ctx.Err()
}

// vitals reads the facts of a close look. Without the API these are only the dead-letter queues that AMQP can name.
func (g gatherer) vitals(ctx context.Context, f *Facts) {
	v := &Vitals{Targets: f.targets()}
	if f.asks() {
		var err error
		if v.State, err = g.api.State(ctx, f.VHost, g.need.Queue); err == nil {
			f.Vitals = v
			return
		}
		f.silent(err)
		return
	}
	v.Targets = slices.DeleteFunc(v.Targets, func(q broker.Queue) bool { return q.Unread != "" })
	if len(v.Targets) > 0 {
		f.Vitals = v
	}
}

// maxNodes bounds how many exchanges and queues of a dead-letter route are looked up.
const maxNodes = 64

// explore follows the dead letters of f, and looks up their exchanges and queues. If they reach no queue, it also looks
// for the exchange and the dead-letter queue with the usual names, and follows that exchange. The plan that fixes the
// route depends on these.
func (g gatherer) explore(ctx context.Context, f *Facts) error {
	f.Known = Graph{Exchanges: map[string]Exchange{}, Queues: map[string]*broker.Queue{}}
	var err error
	f.Route, err = g.follow(ctx, f, func() Route { return f.Known.Trace(f.Queue) })
	if err != nil || !g.need.Closely || len(f.Route.wanted)+len(f.Route.Landings) > 0 {
		return err
	}
	usual := broker.ExchangeFor(f.Named())
	exchange, _ := f.DeadLetterExchange()
	for _, through := range []string{usual, exchange} {
		queue := EndOf(through)
		if _, looked := f.Known.Queues[queue]; looked || through == "" || broker.CheckName(queue) != nil {
			continue
		}
		if err := g.lookUp(ctx, f, Node{Name: queue}); err != nil {
			return err
		}
	}
	if broker.CheckName(usual) != nil {
		return nil // a name that no exchange has is no error
	}
	_, err = g.follow(ctx, f, func() Route { return f.Known.TraceThrough(f.Queue, usual) })
	return err
}

// follow looks up the exchanges and queues that a trace asks for, until it asks for no more or too many are looked up.
func (g gatherer) follow(ctx context.Context, f *Facts, trace func() Route) (Route, error) {
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

// lookUp adds a node to the known graph. Without the API it asks AMQP, which knows less.
func (g gatherer) lookUp(ctx context.Context, f *Facts, n Node) (err error) {
	if n.Exchange {
		f.Known.Exchanges[n.Name], err = g.lookUpExchange(ctx, f, n.Name)
	} else {
		f.Known.Queues[n.Name], err = g.lookUpQueue(ctx, f, n.Name)
	}
	return err
}

// lookUpQueue returns nil for a queue that does not exist. It asks AMQP whether a classic queue answers, because the
// API does not see at once that the machine of a node is gone.
func (g gatherer) lookUpQueue(ctx context.Context, f *Facts, name string) (*broker.Queue, error) {
	if f.asks() {
		q, err := g.api.Queue(ctx, f.VHost, name)
		switch {
		case err == nil:
			q.Version = f.Version
			f.Policies.Apply(&q)
			if q.Type == broker.Classic && !q.Away {
				_, _, err = broker.FindQueue(ctx, g.conn, name)
				q.Away = broker.IsAway(err)
			}
			return &q, broker.UnlessRefused(err)
		case errors.Is(err, broker.ErrNoObject):
			if _, _, err = broker.FindQueue(ctx, g.conn, name); broker.IsAway(err) {
				return &broker.Queue{Name: name, Away: true}, nil
			}
			return nil, broker.UnlessRefused(err) // it is known that there is none
		}
		f.silent(err)
	}
	d, err := broker.Look(ctx, g.conn, name, nil)
	if errors.Is(err, broker.ErrNotFound) {
		return nil, nil // it is known that there is none
	}
	return &d.Queue, err
}
