package topology

import (
	"context"
	"errors"
	"slices"
)

// maxTargets bounds how many exchanges and queues behind a dead-letter exchange
// are looked at.
const maxTargets = 32

// examine learns the vitals. That the API does not tell them is no failure.
func (g gatherer) examine(ctx context.Context, f *facts) error {
	if g.api == nil || f.apiTrouble != "" {
		return g.examineNamed(ctx, f)
	}
	v := &vitals{}
	state, err := g.api.state(ctx, f.vhost, g.queue)
	if err == nil {
		v.consumers, v.messages = state.Consumers, state.Messages
		v.persistent, v.priorities = state.Persistent, state.Priorities
		v.policies, err = g.api.policies(ctx, f.vhost)
	}
	if err == nil {
		err = g.walk(ctx, *f, v)
	}
	if err != nil {
		f.apiTrouble = err.Error()
		return ctx.Err()
	}
	f.vitals = v
	return nil
}

// examineNamed looks at the one dead-letter queue that AMQP can name.
func (g gatherer) examineNamed(ctx context.Context, f *facts) error {
	key, _ := f.deadLetterKey()
	if exchange, set := f.deadLetterExchange(); !set || exchange != "" || f.way.queue != yes || key == g.queue {
		return nil
	}
	d, err := readArguments(ctx, g.conn, key)
	var unread unreadableError
	switch {
	case errors.As(err, &unread), errors.Is(err, ErrQueueNotFound):
		return nil
	case errors.Is(err, errExclusive):
		f.vitals = &vitals{targets: []target{{facts: facts{queue: key, exclusive: true}}}}
	case err != nil:
		return err
	default:
		f.vitals = &vitals{targets: []target{{facts: facts{queue: key, version: f.version, declared: d}}}}
	}
	return nil
}

// walk follows the dead letters to the queues they reach.
func (g gatherer) walk(ctx context.Context, f facts, v *vitals) error {
	exchange, set := f.deadLetterExchange()
	key, fixed := f.deadLetterKey()
	switch {
	case !set || f.way.exchange != yes:
		return nil
	case exchange == "" && (!fixed || f.way.queue != yes):
		return nil
	case exchange == "":
		return g.visit(ctx, f, v, key)
	}
	queues, whole, err := g.behind(ctx, f)
	v.astray = len(queues) == 0 && whole && len(f.way.reached(key, fixed)) > 0
	if err != nil {
		return err
	}
	return g.visit(ctx, f, v, queues...)
}

// behind names the queues that the dead letters reach over the exchange and
// others bound to it; whole says that none was left out.
func (g gatherer) behind(ctx context.Context, f facts) (queues []string, whole bool, err error) {
	exchange, _ := f.deadLetterExchange()
	key, fixed := f.deadLetterKey()
	w, seen := f.way, []string{exchange}
	for next := 1; ; next++ {
		for _, b := range w.reached(key, fixed) {
			switch {
			case b.DestinationType == "queue":
				queues = append(queues, b.Destination)
			case !slices.Contains(seen, b.Destination):
				seen = append(seen, b.Destination)
			}
		}
		if next == len(seen) || next == maxTargets {
			return queues, next == len(seen), nil
		}
		w = way{}
		if trouble := g.askWay(ctx, &w, seen[next]); trouble != "" {
			return nil, false, errors.New(trouble)
		}
	}
}

// visit looks at queues that the dead letters reach.
func (g gatherer) visit(ctx context.Context, f facts, v *vitals, queues ...string) error {
	v.back = slices.Contains(queues, g.queue)
	seen := map[string]bool{g.queue: true}
	for _, name := range queues {
		if seen[name] || len(v.targets) == maxTargets {
			continue
		}
		seen[name] = true
		q, err := g.api.queue(ctx, f.vhost, name)
		if errors.Is(err, errNoSuch) {
			continue // deleted since its binding was seen
		}
		if err != nil {
			return err
		}
		v.targets = append(v.targets, target{facts{
			version: f.version, vhost: f.vhost, queue: name, console: f.console, exclusive: q.Exclusive,
			declared:   declared{kind: q.Type, durable: q.Durable, autoDelete: q.AutoDelete, args: q.Arguments},
			policyName: q.PolicyName, policy: q.Policy, policyKnown: q.Policy != nil,
			vitals: &vitals{policies: v.policies},
		}})
	}
	return nil
}
