package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/panics"
)

// ErrNoList says that the queues are not known: there is no management API to list them, and none are named.
var ErrNoList = errors.New("the queues cannot be listed without the management API")

const (
	// brokerTimeout and storeTimeout bound the requests of All to each of them, so that one that hangs leaves time for
	// the other.
	brokerTimeout = 4 * time.Second
	storeTimeout  = 3 * time.Second
	// asked is how many queues AMQP is asked about at the same time.
	asked = 16
)

// All returns the status of each queue, the worst first. A server that could not be asked is an error in the Overview,
// and the rest is still there. All itself fails only if ctx is done. It takes 7 s at most.
func (c *Collector) All(ctx context.Context) (Overview, error) {
	o := Overview{VHost: c.VHost, Time: time.Now().UTC(), Queues: []Status{}}
	seen, err := c.askBroker(ctx)
	o.Broker = err
	names := c.wanted()
	all := slices.Clone(names)
	for _, name := range names {
		all = append(all, c.listing.Partitions[name]...)
	}
	asking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	kept, err := c.askStore(asking, all)
	o.Alarms = seen.alarms
	if err == nil {
		o.Alarms = slices.Concat(o.Alarms, refusals(asking, c.Store))
	} else {
		o.Store = fmt.Errorf("store: %w", err)
		kept = make([]counter.Summary, len(all))
	}
	lanes := kept[len(names):]
	for i, name := range names {
		s := Status{VHost: c.VHost, Queue: name, DeadLettersOf: c.deleted(name)}
		s.ofBroker(seen, name, c.listing.Partitions[name])
		addLanes(s.Partitions, &kept[i], lanes[:len(s.Partitions)])
		s.ofStore(kept[i])
		s.lead()
		s.Blocking = nil
		lanes = lanes[len(s.Partitions):]
		o.Queues = append(o.Queues, s)
	}
	if i := slices.IndexFunc(kept, func(s counter.Summary) bool { return !s.Time.IsZero() }); i >= 0 {
		o.Time = kept[i].Time
	}
	o.DelayQueues = delayOf(seen.listed)
	o.judge(seen)
	return o, ctx.Err()
}

func (c *Collector) askStore(ctx context.Context, names []string) ([]counter.Summary, error) {
	switch {
	case c.StoreDown != nil:
		return nil, c.StoreDown
	case len(names) == 0: // it may be out of reach all the same
		_, err := c.Store.Now(ctx)
		return nil, err
	}
	return c.Store.Summaries(ctx, c.VHost, names, Arriving)
}

// sight has the replies of the broker.
type sight struct {
	listed map[string]broker.Listed // nil: the management API did not list them
	loads  map[string]broker.Load   // of the queues that exist
	absent map[string]bool          // by AMQP: there is no such queue
	routes map[string]DeadLetterQueue
	found  map[string][]inspect.Finding // errors of queues
	alarms []inspect.Finding
}

func (c *Collector) askBroker(ctx context.Context) (s sight, err error) {
	ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
	defer cancel()
	release, err := c.connect(ctx)
	if err != nil {
		return s, err
	}
	defer release()
	switch {
	case c.API.Management != "":
		return c.list(ctx, c.conn)
	case len(c.Names) > 0:
		return c.depthsOf(ctx, c.conn)
	case c.noAPI != nil:
		return s, fmt.Errorf("%w: %w", ErrNoList, c.noAPI)
	}
	return s, ErrNoList
}

// list asks the management API about all queues and exchanges.
func (c *Collector) list(ctx context.Context, conn *amqp.Connection) (sight, error) {
	api, err := c.API.API()
	if err != nil {
		return sight{}, err
	}
	if err := api.Serves(ctx, conn); err != nil {
		return sight{}, fmt.Errorf("management API: %w", err)
	}
	var all []broker.Listed
	var exchanges map[string]inspect.Exchange
	var alarms []broker.Alarm
	var asking panics.Group
	asking.Go(func() error {
		alarms, _ = api.Alarms(ctx) // the other requests say why the API does not answer
		return nil
	})
	asking.Go(func() (err error) {
		all, err = api.List(ctx, c.VHost)
		return err
	})
	asking.Go(func() (err error) {
		exchanges, err = inspect.ListExchanges(ctx, api, c.VHost)
		return err
	})
	if err := asking.Wait(); err != nil {
		return sight{}, fmt.Errorf("management API: %w", err)
	}
	s := sight{listed: map[string]broker.Listed{}, loads: map[string]broker.Load{}, alarms: inspect.OfAlarms(alarms)}
	for i, version := 0, broker.VersionOf(conn); i < len(all); i++ {
		all[i].Version = version
		s.listed[all[i].Name], s.loads[all[i].Name] = all[i], all[i].Load
	}
	known := inspect.NewGraph(exchanges, all)
	c.listing = known.List()
	s.routes = deadLetterQueues(known, c.listing)
	product, _ := conn.Properties["product"].(string)
	s.found = survey(known, c.listing, product)
	s.judgePartitions(known, c.listing.Partitions)
	return s, nil
}

// judgePartitions gives each partitioned queue the findings and the dead-letter queue of its partitions.
func (s *sight) judgePartitions(known inspect.Graph, all map[string][]string) {
	for name, of := range all {
		each := make([][]inspect.Finding, len(of))
		for i, partition := range of {
			if known.Queues[partition] == nil {
				each[i] = []inspect.Finding{inspect.MissingPartition(partition)}
				continue
			}
			each[i] = s.found[partition]
			if at, found := s.routes[partition]; found {
				s.routes[name] = at
			}
		}
		if all := inspect.Merged(name, each); len(all) > 0 {
			s.found[name] = all
		}
	}
}

// depthsOf asks AMQP, which knows ready messages and consumers.
func (c *Collector) depthsOf(ctx context.Context, conn *amqp.Connection) (sight, error) {
	s := sight{loads: map[string]broker.Load{}, absent: map[string]bool{}}
	var mu sync.Mutex
	var asking panics.Group
	asking.SetLimit(asked)
	c.listing.Partitions = map[string][]string{}
	ask := func(name string) (bool, error) {
		found, have, err := broker.FindQueue(ctx, conn, name)
		mu.Lock()
		defer mu.Unlock()
		if found == broker.Yes {
			s.loads[name] = broker.Load{Ready: have.Messages, Consumers: have.Consumers}
		}
		return found == broker.Yes, err
	}
	for _, name := range c.Names {
		asking.Go(func() error {
			exists, refused := ask(name)
			if err := broker.UnlessRefused(refused); exists || err != nil {
				return err
			}
			n, err := broker.PartitionsOf(ctx, conn, name)
			names := broker.Partitions(name, n)
			for _, partition := range names {
				if _, askErr := ask(partition); err == nil {
					err = broker.UnlessRefused(askErr)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			c.listing.Partitions[name] = names
			s.absent[name] = n == 0 && err == nil && refused == nil
			return err
		})
	}
	return s, asking.Wait()
}

// wanted returns the queues to show, each once. If the present list failed, they are those of the last one.
func (c *Collector) wanted() []string {
	names := c.Names
	if len(names) == 0 {
		names = slices.Clone(c.listing.Queues)
		for name := range c.listing.DeadLetters {
			if c.deleted(name) != "" {
				names = append(names, name)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// deleted returns the queue whose dead letters the named one takes, if no such queue exists any more, else "".
func (c *Collector) deleted(name string) (of string) {
	for _, of = range c.listing.DeadLetters[name] {
		if _, exists := c.listing.Routes[of]; exists || c.listing.Partitions[of] != nil {
			return ""
		}
	}
	return of
}

// deadLetterQueues finds the dead-letter queue of each queue.
func deadLetterQueues(known inspect.Graph, listing inspect.Listing) map[string]DeadLetterQueue {
	at := map[string]DeadLetterQueue{}
	for name, route := range listing.Routes {
		found, err := chooseLanding(name, route.Landings, "its route reaches no queue")
		if err != nil || found.Assumed == nil || known.Queues[found.Name] != nil {
			at[name] = found
		}
	}
	return at
}

// survey finds the errors of each queue that lists show. A queue that only takes the dead letters of others is judged
// with them.
func survey(known inspect.Graph, listing inspect.Listing, product string) map[string][]inspect.Finding {
	found := map[string][]inspect.Finding{}
	for name, q := range known.Queues {
		if listing.PassesOver(name) {
			continue
		}
		need := inspect.Need{Queue: name, MaxRetries: inspect.UsualRetries}
		if errors := known.Survey(*q, listing.Routes[name], product, need); len(errors) > 0 {
			found[name] = errors
		}
	}
	return found
}
