package doctor

import (
	"cmp"
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

// List lists the queues of the connection's virtual host. It needs need.Management. A partitioned queue is one queue. It passes over a queue that takes
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
	exchanges, err := inspect.ListExchanges(ctx, api, vhost)
	if err != nil {
		return Listing{}, fmt.Errorf("list the exchanges of virtual host %q: %w", vhost, err)
	}
	known := inspect.Graph{Exchanges: exchanges, Queues: map[string]*broker.Queue{}}.AllKeys()
	for i := range all {
		known.Queues[all[i].Name] = &all[i]
	}
	return sortOut(all, deadLetterQueues(known), known.Partitioned()), nil
}

// sortOut makes the Listing. dead maps a queue to those that dead-letter to it, and partitioned has the partitions of
// queues.
func sortOut(all []broker.Queue, dead, partitioned map[string][]string) Listing {
	out, of := Listing{DeadLetters: map[string][]string{}}, map[string]string{}
	for queue, partitions := range partitioned {
		out.Queues = append(out.Queues, queue)
		for _, name := range partitions {
			of[name] = queue
		}
	}
	for _, sources := range dead {
		for i, name := range sources {
			sources[i] = cmp.Or(of[name], name)
		}
	}
	for _, q := range all {
		_, deadLetters := q.DeadLetterExchange()
		takes := len(dead[q.Name]) > 0 && !deadLetters
		if takes {
			slices.Sort(dead[q.Name])
			out.DeadLetters[q.Name] = slices.Compact(dead[q.Name])
		}
		if q.Exclusive || q.Type == broker.Stream || takes || broker.IsDelayQueue(q.Name) {
			out.PassedOver = append(out.PassedOver, q.Name)
			continue
		}
		if of[q.Name] == "" {
			out.Queues = append(out.Queues, q.Name)
		}
	}
	slices.Sort(out.Queues)
	slices.Sort(out.PassedOver)
	return out
}

// deadLetterQueues maps dead-letter queues to their sources. It omits queues that it cannot name.
func deadLetterQueues(known inspect.Graph) map[string][]string {
	dead := map[string][]string{}
	for _, q := range known.Queues {
		landings := known.Trace(*q).Landings
		for _, l := range landings {
			dead[l.Name] = append(dead[l.Name], q.Name)
		}
		if name := broker.DeadLetterQueueFor(q.Name); len(landings) == 0 && known.Queues[name] != nil {
			dead[name] = append(dead[name], q.Name)
		}
	}
	return dead
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
