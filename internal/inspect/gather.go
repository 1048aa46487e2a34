package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// Gatherer learns the facts about one queue.
type Gatherer struct {
	conn    *amqp.Connection
	api     *broker.API // nil if there is none
	queue   string
	closely bool
}

// NewGatherer refuses a name that the broker must not be asked about. A close look also learns what goes on in the
// queue, and looks at the dead-letter queues.
func NewGatherer(conn *amqp.Connection, need Need, closely bool) (Gatherer, error) {
	if err := broker.CheckName(need.Queue); err != nil {
		return Gatherer{}, fmt.Errorf("queue: %w", err)
	}
	api, err := need.API()
	return Gatherer{conn: conn, api: api, queue: need.Queue, closely: closely}, err
}

// Failed says what was done to which queue when err came.
func (g Gatherer) Failed(doing string, err error) error {
	if errors.Is(err, broker.ErrNotFound) {
		return fmt.Errorf("%w: %q in virtual host %q", broker.ErrNotFound, g.queue, g.conn.Config.Vhost)
	}
	return fmt.Errorf("%s queue %q: %w", doing, g.queue, err)
}

// Gather learns the facts. It returns broker.ErrNotFound, or an error of the connection.
func (g Gatherer) Gather(ctx context.Context) (Facts, error) {
	d, err := broker.Look(ctx, g.conn, g.queue, g.api)
	f := Facts{Description: d}
	if err != nil {
		return f, err
	}
	f.Product, _ = g.conn.Properties["product"].(string)
	if f.Exclusive {
		return f, nil
	}
	if f.Trouble == "" {
		f.API = g.api
	}
	if err := g.explore(ctx, &f); err != nil {
		return f, err
	}
	f.conclude()
	if g.closely {
		f.Unasked = g.api == nil
		g.vitals(ctx, &f)
	}
	return f, ctx.Err()
}

// Settled gathers again while the API shows no policy yet and the facts leave undecided what a policy would decide.
func (g Gatherer) Settled(ctx context.Context, undecided func(Facts) bool) (Facts, error) {
	return broker.Settled(ctx, func(ctx context.Context) (Facts, bool, error) {
		f, err := g.Gather(ctx)
		return f, f.enough(undecided), err
	})
}

func (f Facts) enough(undecided func(Facts) bool) bool {
	return f.Trouble != "" || f.PolicyKnown || !undecided(f)
}

// asks reports whether the management API is asked for more.
func (f *Facts) asks() bool { return f.API != nil && f.Trouble == "" }

// silent notes why the API did not answer. It is asked no more.
func (f *Facts) silent(err error) {
	if err != nil {
		f.Trouble = err.Error()
	}
}

// lookUpExchange asks AMQP whether the exchange exists, or the API if the user may not ask AMQP, and the API for the
// rest.
func (g Gatherer) lookUpExchange(ctx context.Context, f *Facts, name string) (x Exchange, err error) {
	x.Exists, err = broker.FindExchange(ctx, g.conn, name)
	if err := broker.UnlessRefused(err); err != nil || x.Exists == broker.No || !f.asks() {
		return x, err
	}
	have, err := g.askExchange(ctx, f.VHost, name)
	switch {
	case err == nil:
		x = have
	case errors.Is(err, broker.ErrNoObject) && x.Exists == broker.Unknown:
		x.Exists = broker.No
	default:
		f.silent(err)
	}
	return x, ctx.Err()
}

func (g Gatherer) askExchange(ctx context.Context, vhost, name string) (Exchange, error) {
	have, err := g.api.Exchange(ctx, vhost, name)
	if err != nil {
		return Exchange{}, err
	}
	bindings, err := g.api.Bindings(ctx, vhost, name)
	if err != nil || have.Policy == "" {
		return known(have, bindings, nil), err
	}
	policies, err := g.api.UserPolicies(ctx, vhost)
	return known(have, bindings, policies), err
}

// vitals learns what a close look sees. Without the API these are only the dead-letter queues that AMQP can name.
func (g Gatherer) vitals(ctx context.Context, f *Facts) {
	v := &Vitals{Targets: f.targets()}
	if f.asks() {
		var err error
		if v.State, err = g.api.State(ctx, f.VHost, g.queue); err == nil {
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
