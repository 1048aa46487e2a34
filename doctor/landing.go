package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/setting"
)

// FindDeadLetters returns the queues in which the dead letters of a queue land, sorted by name. With Management it
// follows the dead-letter route through exchanges and queues. AMQP alone can follow only a route over the default
// exchange, with the configure permission on the queue; for other routes it finds no queue. If the route reaches no
// queue, or is not wholly known, why is the reason, and err is nil. That is also so if the queue does not exist or
// cannot be read. Only Queue, Management and HTTPClient of need are used.
//
// It changes nothing. With Management it may wait 15 s for the policy of a queue that was just declared. It returns
// errors of the connection, and for an invalid Queue or Management.
func FindDeadLetters(ctx context.Context, conn *amqp.Connection, need inspect.Need) (queues []inspect.Landing,
	why string, err error) {
	need.AllowDrop = false
	f, err := inspect.Gather(ctx, conn, need, inspect.RouteRules)
	switch {
	case errors.Is(err, broker.ErrNotFound):
		if n, _ := broker.PartitionsOf(ctx, conn, need.Queue); n > 0 { // all have the route of the first
			need.Queue = broker.Partition(need.Queue, 0)
			return FindDeadLetters(ctx, conn, need)
		}
		return nil, fmt.Sprintf("there is no queue %q in virtual host %q", need.Queue, conn.Config.Vhost), nil
	case err != nil:
		return nil, "", fmt.Errorf("find its dead letters: %w", err)
	}
	why, queues = strings.Join(blindSpots(f), "; "), f.Route.Landings
	slices.SortFunc(queues, func(a, b inspect.Landing) int { return strings.Compare(a.Name, b.Name) })
	if len(queues) == 0 && why == "" {
		why = "dead letters reach no queue"
		if found := inspect.Judge(inspect.RouteRules, f, need); len(found) > 0 {
			why = found[0].Seen
		}
	}
	return queues, why, nil
}

// blindSpots says why the route is not wholly known.
func blindSpots(f inspect.Facts) []string {
	var out []string
	_, set := f.DeadLetterExchange()
	switch {
	case f.Exclusive:
		out = append(out, "the queue is exclusive to one connection")
	case f.Unread != "":
		out = append(out, "the declaration of the queue cannot be read: "+f.Unread)
	case !set && !f.PolicyKnown:
		out = append(out, "whether a policy names a dead-letter exchange cannot be seen over AMQP")
	case f.Exchange.Exists == broker.Unknown && set:
		out = append(out, "whether the dead-letter exchange exists cannot be seen")
	}
	out = append(out, f.Route.Unseen...)
	if f.Route.Open {
		out = append(out, "the routing key of a dead letter decides which queue it reaches over the default exchange")
	}
	if f.Trouble != "" {
		out = append(out, "the management API failed: "+f.Trouble)
	}
	return out
}

// List lists the queues of the connection's virtual host. It needs need.Management. A partitioned queue is one queue.
func List(ctx context.Context, conn *amqp.Connection, need inspect.Need) (inspect.Listing, error) {
	if need.Management == "" {
		return inspect.Listing{}, setting.New("Management", "", "the URL of the management API: AMQP cannot list queues")
	}
	api, err := need.API()
	if err == nil {
		err = TryManagement(ctx, conn, need)
	}
	if err != nil {
		return inspect.Listing{}, err
	}
	vhost := conn.Config.Vhost
	policies, err := api.Policies(ctx, vhost)
	var all []broker.Listed
	if err == nil {
		all, err = api.List(ctx, vhost)
	}
	if err != nil {
		return inspect.Listing{}, fmt.Errorf("list the queues of virtual host %q: %w", vhost, err)
	}
	exchanges, err := inspect.ListExchanges(ctx, api, vhost)
	if err != nil {
		return inspect.Listing{}, fmt.Errorf("list the exchanges of virtual host %q: %w", vhost, err)
	}
	for i := range all {
		policies.Apply(&all[i].Queue)
	}
	return inspect.NewGraph(exchanges, all).List(), nil
}
