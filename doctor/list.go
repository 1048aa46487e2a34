package doctor

import (
	"context"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/internal/similar"
)

// Listing is what List found.
type Listing struct {
	Queues     []string // that consumers may retry from, by name
	PassedOver []string // exclusive ones, streams, delay queues, and the dead-letter queues of others

	// DeadLetters maps a queue that is passed over to the queues that dead-letter to it. If the dead letters of a queue
	// reach none, QUEUE + ".dlq" counts as their dead-letter queue.
	DeadLetters map[string][]string
}

// List lists the queues of the connection's virtual host. It needs need.Management. It passes over a queue that takes
// the dead letters of another one and has no dead-letter exchange itself: Examine judges it with the other one.
func List(ctx context.Context, conn *amqp.Connection, need inspect.Need) (Listing, error) {
	if need.Management == "" {
		return Listing{}, setting.New("Management", "", "the URL of the management API, because AMQP cannot list queues")
	}
	api, err := need.API()
	if err != nil {
		return Listing{}, err
	}
	vhost := conn.Config.Vhost
	all, err := api.Queues(ctx, vhost)
	if err != nil {
		return Listing{}, fmt.Errorf("list the queues of virtual host %q: %w", vhost, err)
	}
	dead, err := deadLetterQueues(ctx, api, vhost, all)
	if err != nil {
		return Listing{}, fmt.Errorf("list the dead-letter queues of virtual host %q: %w", vhost, err)
	}
	return sortOut(all, dead), nil
}

// sortOut makes the Listing. dead maps a queue to those that dead-letter to it.
func sortOut(all []broker.Queue, dead map[string][]string) Listing {
	out := Listing{DeadLetters: map[string][]string{}}
	for _, q := range all {
		_, deadLetters := q.DeadLetterExchange()
		takes := len(dead[q.Name]) > 0 && !deadLetters
		if takes {
			out.DeadLetters[q.Name] = dead[q.Name]
		}
		if q.Exclusive || q.Type == broker.Stream || takes || broker.IsDelayQueue(q.Name) {
			out.PassedOver = append(out.PassedOver, q.Name)
			continue
		}
		out.Queues = append(out.Queues, q.Name)
	}
	slices.Sort(out.Queues)
	slices.Sort(out.PassedOver)
	return out
}

// deadLetterQueues maps dead-letter queues to their sources. It omits queues that it cannot name.
func deadLetterQueues(ctx context.Context, api *broker.API, vhost string,
	all []broker.Queue) (map[string][]string, error) {
	exchanges, err := inspect.ListExchanges(ctx, api, vhost)
	if err != nil {
		return nil, err
	}
	known := inspect.Graph{Exchanges: exchanges, Queues: map[string]*broker.Queue{}}.AllKeys()
	for i := range all {
		known.Queues[all[i].Name] = &all[i]
	}
	dead := map[string][]string{}
	for _, q := range all {
		landings := known.Trace(q).Landings
		for _, l := range landings {
			dead[l.Name] = append(dead[l.Name], q.Name)
		}
		if name := broker.DeadLetterQueueFor(q.Name); len(landings) == 0 && known.Queues[name] != nil {
			dead[name] = append(dead[name], q.Name)
		}
	}
	return dead, nil
}

// DidYouMean asks for the queues that a misspelt name is like. It is empty if there are none, or if need.Management
// does not list them: AMQP cannot.
func DidYouMean(ctx context.Context, conn *amqp.Connection, need inspect.Need, queue string) string {
	api, err := need.API()
	if api == nil || err != nil {
		return ""
	}
	all, err := api.Queues(ctx, conn.Config.Vhost)
	if err != nil {
		return ""
	}
	var names []string
	for _, q := range all {
		names = append(names, q.Name)
	}
	return similar.Question(queue, names, "")
}
