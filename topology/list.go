package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/internal/setting"
)

// TryManagement returns nil if need.Management answers, lets its user in, and is
// that of the broker which the connection leads to. Of need, only Management
// and HTTPClient are used.
func TryManagement(ctx context.Context, conn *amqp.Connection, need Need) error {
	m, err := newManagement(need.Management, need.HTTPClient)
	if err != nil {
		return err
	}
	if err := m.serves(ctx, conn); err != nil {
		return fmt.Errorf("topology: the management API does not tell: %w", err)
	}
	return nil
}

// Listing is what List found.
type Listing struct {
	Queues     []string // that consumers may retry from, by name
	PassedOver []string // exclusive ones, streams, and the dead-letter queues of others

	// DeadLetters maps a queue that is passed over to the queues that dead-letter
	// to it. If the dead letters of a queue reach none, QUEUE + ".dlq" is taken
	// for their dead-letter queue.
	DeadLetters map[string][]string
}

// List lists the queues of the connection's virtual host. It takes
// need.Management. A queue that another one's dead letters reach, and that has
// no dead-letter exchange itself, is passed over: Examine looks at it with the
// other one. Of need, only Management and HTTPClient are used.
func List(ctx context.Context, conn *amqp.Connection, need Need) (Listing, error) {
	if need.Management == "" {
		return Listing{}, fmt.Errorf("topology: %w", setting.New("Management", "", "the URL of the management API, because AMQP cannot list queues"))
	}
	m, err := newManagement(need.Management, need.HTTPClient)
	if err != nil {
		return Listing{}, err
	}
	vhost := conn.Config.Vhost
	all, err := m.queues(ctx, vhost)
	if err != nil {
		return Listing{}, fmt.Errorf("topology: list the queues of virtual host %q: %w", vhost, err)
	}
	dead, err := gatherer{conn: conn, api: m}.deadLetterQueues(ctx, all)
	if err != nil {
		return Listing{}, fmt.Errorf("topology: list the dead-letter queues of virtual host %q: %w", vhost, err)
	}
	return sortOut(all, dead), nil
}

// sortOut makes the Listing. dead maps a queue to those that dead-letter to it.
func sortOut(all []target, dead map[string][]string) Listing {
	out := Listing{DeadLetters: map[string][]string{}}
	for _, q := range all {
		_, deadLetters := q.DeadLetterExchange()
		takes := len(dead[q.Name]) > 0 && !deadLetters
		if takes {
			out.DeadLetters[q.Name] = dead[q.Name]
		}
		if q.Exclusive || q.Type == "stream" || takes {
			out.PassedOver = append(out.PassedOver, q.Name)
			continue
		}
		out.Queues = append(out.Queues, q.Name)
	}
	slices.Sort(out.Queues)
	slices.Sort(out.PassedOver)
	return out
}

// deadLetterQueues maps dead-letter queues to their sources. It looks up the
// exchanges of their routes, and leaves out queues that it cannot name.
func (g gatherer) deadLetterQueues(ctx context.Context, all []target) (map[string][]string, error) {
	known := graph{exchanges: map[string]way{}, queues: map[string]*target{}, own: keySet{asked: true, any: true}}
	for i := range all {
		known.queues[all[i].Name] = &all[i]
	}
	dead := map[string][]string{}
	for _, q := range all {
		r, err := g.exchangesOf(ctx, q.facts, known)
		if err != nil {
			return nil, err
		}
		for _, l := range r.landings {
			dead[l.queue] = append(dead[l.queue], q.Name)
		}
		if name := (Spec{Queue: q.Name}).withDefaults().DeadLetterQueue; len(r.landings) == 0 && known.queues[name] != nil {
			dead[name] = append(dead[name], q.Name)
		}
	}
	return dead, nil
}

// exchangesOf looks up the exchanges on the dead-letter route of f. All queues
// are known.
func (g gatherer) exchangesOf(ctx context.Context, f facts, known graph) (route, error) {
	for {
		r := known.trace(f)
		if len(r.wanted) == 0 {
			return r, nil
		}
		for _, n := range r.wanted {
			if !n.exchange {
				known.queues[n.name] = nil
				continue
			}
			w := way{exchange: queueinfo.Yes}
			err := g.apiWay(ctx, &w, n.name)
			if errors.Is(err, errNoSuch) {
				w.exchange, err = queueinfo.No, nil
			}
			if err != nil {
				return r, err
			}
			known.exchanges[n.name] = w
		}
	}
}
