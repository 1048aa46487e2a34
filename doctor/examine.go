// Package doctor is for operators. It examines a queue closely, and writes commands that fix the findings. It proves
// on scratch queues where requeued and rejected messages go, and it finds queues and dead letters.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

// Examine inspects a queue closely: also the queues that dead letters reach, the present consumers and messages, and
// policies that match and do not apply. All of it needs Management, except for a dead-letter queue that a routing key
// names. A fact that cannot be seen is a finding too. Findings have Commands if some fix them. A delay queue has
// none.
func Examine(ctx context.Context, conn *amqp.Connection, need inspect.Need) ([]inspect.Finding, error) {
	plan, err := makePlan(ctx, conn, need, inspect.RulesFor(need.Queue))
	return plan.findings(), err
}

// DeliveryLimit is Examine for one question: does the queue's own delivery limit allow need.MaxRetries? It returns one
// Error if not, one Warning if only just, and nothing if it does, or if there is no such limit. Of the partitions of a
// queue one decides: the first with an Error, else the first with a Warning.
func DeliveryLimit(ctx context.Context, conn *amqp.Connection, need inspect.Need) ([]inspect.Finding, error) {
	rules := []inspect.Rule{inspect.DeliveryLimitRule}
	plan, err := makePlan(ctx, conn, need, rules)
	if !errors.Is(err, broker.ErrNotFound) {
		return plan.findings(), err
	}
	n, unread := broker.PartitionsOf(ctx, conn, need.Queue)
	if unread != nil || n == 0 {
		return nil, cmp.Or(unread, err)
	}
	var found []inspect.Finding
	for _, need.Queue = range broker.Partitions(need.Queue, n) {
		switch plan, err := makePlan(ctx, conn, need, rules); {
		case errors.Is(err, broker.ErrNotFound): // the doctor reports it
		case err != nil:
			return nil, err
		case slices.ContainsFunc(plan.findings(), inspect.Finding.Severe):
			return plan.findings(), nil
		case found == nil:
			found = plan.findings()
		}
	}
	return found, nil
}

// Alarms judges the alarms of the broker's nodes. That they cannot be seen is a finding, too.
func Alarms(ctx context.Context, conn *amqp.Connection, need inspect.Need) []inspect.Finding {
	var on []broker.Alarm
	api, err := need.API()
	if err == nil && api == nil {
		err = errors.New("there is no management API to ask")
	}
	if err == nil {
		err = api.Serves(ctx, conn)
	}
	if err == nil {
		on, err = api.Alarms(ctx)
	}
	if err != nil {
		return []inspect.Finding{inspect.Say("alarms-unknown", inspect.Vars{"reason": err})}
	}
	return inspect.OfAlarms(on)
}

// TryManagement returns nil if need.Management answers, accepts its user, and serves the broker that the connection
// leads to.
func TryManagement(ctx context.Context, conn *amqp.Connection, need inspect.Need) error {
	api, err := need.API()
	if err != nil || api == nil {
		return err
	}
	if err := api.Serves(ctx, conn); err != nil {
		return fmt.Errorf("the management API cannot be used: %w", err)
	}
	return nil
}

// Measure returns the load of need.Queue, which only the management API reports.
func Measure(ctx context.Context, conn *amqp.Connection, need inspect.Need) (broker.Load, error) {
	api, err := need.API()
	if err != nil {
		return broker.Load{}, err
	}
	return api.Load(ctx, conn, need.Queue)
}
