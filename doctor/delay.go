package doctor

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

// delayQueues examines the delay queues that all queues of the virtual host share. Without a lane it finds nothing.
// Only the management API shows policies.
func (c *Checkup) delayQueues(ctx context.Context) ([]inspect.Finding, error) {
	found, wrong, unread, err := broker.BucketsOf(ctx, c.Conn)
	if err != nil {
		return nil, fmt.Errorf("examining the delay queues: %w", err)
	}
	if found != broker.Yes {
		return nil, nil
	}
	var all []inspect.Finding
	for _, one := range wrong {
		all = append(all, inspect.Say("delay-queue-broken", inspect.Vars{"seen": one}))
	}
	for _, one := range unread {
		all = append(all, inspect.Say("delay-queue-unread", inspect.Vars{"seen": one}))
	}
	policies, err := c.delayPolicies(ctx)
	if err != nil {
		policies = append(policies, inspect.Say("management-unreachable", inspect.Vars{"reason": err}))
	}
	return append(all, policies...), ctx.Err()
}

// delayPolicies examines the policies of the buckets.
func (c *Checkup) delayPolicies(ctx context.Context) ([]inspect.Finding, error) {
	api, err := c.Need.API()
	if err != nil || api == nil {
		return nil, err
	}
	var all []inspect.Finding
	for _, b := range broker.Buckets {
		q, err := api.Queue(ctx, c.Conn.Config.Vhost, b.Name)
		switch {
		case errors.Is(err, broker.ErrNoObject):
			continue
		case err != nil:
			return all, fmt.Errorf("examining the delay queues, queue %q: %w", b.Name, err)
		}
		for _, key := range changedByPolicy(b, q.Policy) {
			all = append(all, inspect.Say("delay-queue-policy", inspect.Vars{"queue": fmt.Sprintf("%q", b.Name), "key": key,
				"value": q.Policy[key]}))
		}
	}
	return all, nil
}

// changedByPolicy returns the keys of a policy that change what a bucket does. Other keys do nothing, because the
// bucket's arguments have precedence. Of two TTLs the shorter one applies.
func changedByPolicy(b broker.Bucket, policy amqp.Table) (keys []string) {
	for _, argument := range []string{
		broker.ArgDeadLetterKey, broker.ArgExpires, broker.ArgMaxLength, broker.ArgMaxLengthBytes,
	} {
		key := broker.PolicyKey(argument)
		if _, set := policy[key]; set {
			keys = append(keys, key)
		}
	}
	key := broker.PolicyKey(broker.ArgTTL)
	if ttl, set := policy[key]; set && broker.Integer(ttl) < b.TTL.Milliseconds() {
		keys = append(keys, key)
	}
	return keys
}
