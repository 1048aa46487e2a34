package topology

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// ErrQueueNotFound is returned by [Inspect] and [Check] for a queue that does
// not exist; declare it, or mind the virtual host of the connection.
var ErrQueueNotFound = queueinfo.ErrNotFound

// gatherer learns the facts of one queue. api is nil where there is none.
type gatherer struct {
	conn    *amqp.Connection
	api     *management
	queue   string
	closely bool // for Examine
}

// newGatherer refuses a name that the broker must not be asked for.
func newGatherer(conn *amqp.Connection, need Need, closely bool) (gatherer, error) {
	if err := queueinfo.CheckName(need.Queue); err != nil {
		return gatherer{}, fmt.Errorf("topology: Queue: %w", err)
	}
	g := gatherer{conn: conn, queue: need.Queue, closely: closely}
	if need.Management == "" {
		return g, nil
	}
	var err error
	g.api, err = newManagement(need.Management, need.HTTPClient)
	return g, err
}

// failed says what was done to which queue when err came.
func (g gatherer) failed(doing string, err error) error {
	if errors.Is(err, ErrQueueNotFound) {
		return fmt.Errorf("%w: %q in virtual host %q", ErrQueueNotFound, g.queue, g.conn.Config.Vhost)
	}
	return fmt.Errorf("topology: %s queue %q: %w", doing, g.queue, err)
}

func (g gatherer) gather(ctx context.Context) (facts, error) {
	f := facts{Queue: queueinfo.Queue{Name: g.queue, VHost: g.conn.Config.Vhost, Version: queueinfo.VersionOf(g.conn)}}
	f.product, _ = g.conn.Properties["product"].(string)
	if err := g.exists(ctx, &f); err != nil {
		return facts{}, err
	}
	if f.Exclusive {
		return f, nil
	}
	if g.api != nil {
		f.apiTrouble = g.ask(ctx, &f)
	}
	if g.api == nil || f.apiTrouble != "" {
		if err := g.read(ctx, &f); err != nil {
			return facts{}, err
		}
	}
	if x, set := f.DeadLetterExchange(); set {
		if err := g.follow(ctx, &f, x); err != nil {
			return facts{}, err
		}
	}
	if err := g.explore(ctx, &f); err != nil {
		return facts{}, err
	}
	f.astray = f.strays()
	if g.closely {
		f.unasked = g.api == nil
		if err := g.examine(ctx, &f); err != nil {
			return facts{}, err
		}
	}
	return f, ctx.Err()
}

// exists returns ErrQueueNotFound if there is no such queue, nil if the user may not ask. From RabbitMQ 4.0 on a passive
// declaration needs any one permission on the queue (none on 3.10.8).
func (g gatherer) exists(ctx context.Context, f *facts) error {
	found, _, err := queueinfo.Find(ctx, g.conn, g.queue)
	var reply *amqp.Error
	switch {
	case errors.As(err, &reply) && reply.Code == amqp.ResourceLocked:
		f.Exclusive = true
		return nil
	case queueinfo.UnlessRefused(err) != nil:
		return err
	case found == queueinfo.No:
		return ErrQueueNotFound
	}
	return nil
}

// ask learns from the management API, or says why it does not. That the API is
// out of reach is a finding, not a failure: AMQP may tell enough.
func (g gatherer) ask(ctx context.Context, f *facts) (trouble string) {
	if err := g.api.serves(ctx, g.conn); err != nil {
		return err.Error()
	}
	q, err := g.api.queue(ctx, g.conn.Config.Vhost, g.queue)
	if err != nil {
		return err.Error()
	}
	if f.policies, err = g.api.policies(ctx, g.conn.Config.Vhost); err != nil {
		return err.Error()
	}
	f.Declared = q.declared()
	f.Exclusive = q.Exclusive
	f.policies.apply(q, f)
	f.console = console{g.api.base, g.api.user}
	return ""
}

func (g gatherer) read(ctx context.Context, f *facts) error {
	if err := f.Read(ctx, g.conn); err != nil {
		return fmt.Errorf("read its arguments: %w", err)
	}
	return nil
}

// follow looks where the exchange of the dead letters leads.
func (g gatherer) follow(ctx context.Context, f *facts, exchange string) error {
	var err error
	if exchange == "" {
		f.way.exchange = queueinfo.Yes
		if key, set := f.DeadLetterKey(); set {
			f.way.queue, _, err = queueinfo.Find(ctx, g.conn, key)
			if f.way.queue == queueinfo.Unknown && g.api != nil && f.apiTrouble == "" {
				_, apiErr := g.api.queue(ctx, f.VHost, key)
				f.way.queue = answerOf(apiErr)
			}
		}
		return queueinfo.UnlessRefused(err)
	}
	f.way.exchange, err = queueinfo.FindExchange(ctx, g.conn, exchange)
	if err := queueinfo.UnlessRefused(err); err != nil {
		return fmt.Errorf("look for the dead-letter exchange %q: %w", exchange, err)
	}
	if f.way.exchange == queueinfo.Unknown && g.api != nil && f.apiTrouble == "" {
		_, apiErr := g.api.exchange(ctx, f.VHost, exchange)
		f.way.exchange = answerOf(apiErr)
	}
	if f.way.exchange == queueinfo.Yes && g.api != nil && f.apiTrouble == "" {
		f.apiTrouble = g.askWay(ctx, &f.way, exchange)
	}
	return nil
}

func (g gatherer) askWay(ctx context.Context, w *way, exchange string) (trouble string) {
	if err := g.apiWay(ctx, w, exchange); err != nil {
		return err.Error()
	}
	return ""
}

func (g gatherer) apiWay(ctx context.Context, w *way, exchange string) error {
	vhost := g.conn.Config.Vhost
	x, err := g.api.exchange(ctx, vhost, exchange)
	if err != nil {
		return err
	}
	all, err := g.api.bindings(ctx, vhost, exchange)
	if err != nil {
		return err
	}
	w.kind, w.bindings, w.bound = x.Type, all, true
	w.alternateTo, _ = x.Arguments["alternate-exchange"].(string)
	if w.alternateTo == "" && x.Policy != "" {
		if w.alternateTo, err = g.alternateBy(ctx, x.Policy); err != nil {
			return err
		}
	}
	w.alternate = w.alternateTo != ""
	return nil
}

// alternateBy is the alternate exchange that a policy names.
func (g gatherer) alternateBy(ctx context.Context, policy string) (string, error) {
	all, err := g.api.policiesOf(ctx, "policies", g.conn.Config.Vhost)
	for _, p := range all {
		if p.Name == policy {
			to, _ := p.Definition["alternate-exchange"].(string)
			return to, nil
		}
	}
	return "", err
}

// answerOf turns a reply of the management API into an queueinfo.Answer, where the user may not ask over AMQP.
func answerOf(err error) queueinfo.Answer {
	switch {
	case err == nil:
		return queueinfo.Yes
	case errors.Is(err, errNoSuch):
		return queueinfo.No
	}
	return queueinfo.Unknown
}
