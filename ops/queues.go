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
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/panics"
)

// ErrNoList says that the queues are not known: there is no management API to list them, and none are named.
var ErrNoList = errors.New("the queues cannot be listed without the management API")

const (
	// routesEvery is the least time between two readings of all dead-letter routes, which rarely change, and brokenEvery
	// is that time while an error is found, or the API does not show the policy of a queue yet.
	routesEvery = 30 * time.Second
	brokenEvery = 5 * time.Second
	// brokerTimeout and storeTimeout bound what All asks each of them: one that hangs leaves time for the other.
	brokerTimeout = 4 * time.Second
	storeTimeout  = 3 * time.Second
	// asked is how many queues AMQP is asked about at the same time.
	asked = 16
)

// Queues summarises the queues of a virtual host, as often as it is asked to. It is not safe for concurrent use.
type Queues struct {
	VHost string
	Store *counter.Admin

	// Dial opens a connection to the broker. All dials again when it is lost.
	Dial func(context.Context) (*amqp.Connection, error)

	// API is the management API, which lists the queues. If it has none, FindAPI looks for it until it answers; nil looks
	// nowhere.
	API     inspect.Need
	FindAPI func(context.Context, *amqp.Connection, inspect.Need) (inspect.Need, error)

	// Names are the queues to summarise. Empty means all that the management API lists, except for exclusive queues,
	// streams, dead-letter queues and delay queues.
	Names []string

	conn       *amqp.Connection
	names      []string        // of the last list
	listing    inspect.Listing // when the exchanges were read
	routes     map[string]DeadLetterQueue
	found      map[string][]inspect.Finding
	unsettled  bool // a policy is not known
	routesRead time.Time
}

// Close closes the connection to the broker. The store is the caller's.
func (q *Queues) Close() {
	if q.conn != nil {
		_ = q.conn.CloseDeadline(time.Now().Add(closeTimeout))
	}
}

// All summarises the queues, the worst first. What could not be asked is an error in the Overview, and the rest is
// still there. All itself fails only if ctx is done. It takes 7 s at most.
func (q *Queues) All(ctx context.Context) (Overview, error) {
	o := Overview{VHost: q.VHost, Time: time.Now().UTC(), Queues: []Summary{}}
	seen, err := q.askBroker(ctx)
	o.Broker = err
	names := q.wanted(seen)
	all := slices.Clone(names)
	for _, name := range names {
		all = append(all, q.listing.Partitions[name]...)
	}
	kept, err := q.askStore(ctx, all)
	if err != nil {
		o.Store = fmt.Errorf("store: %w", err)
		kept = make([]counter.Summary, len(all))
	}
	lanes := kept[len(names):]
	for i, name := range names {
		s := Summary{VHost: q.VHost, Queue: name}
		s.ofBroker(seen, name, q.listing.Partitions[name])
		s.addLanes(&kept[i], lanes[:len(s.Partitions)])
		s.ofStore(kept[i])
		lanes = lanes[len(s.Partitions):]
		o.Queues = append(o.Queues, s)
	}
	if len(kept) > 0 && o.Store == nil {
		o.Time = kept[0].Time
	}
	o.DelayQueues, o.Alarms = delayOf(seen.listed), slices.Concat(seen.alarms, refusals(ctx, q.Store))
	o.judge(seen)
	return o, ctx.Err()
}

func (q *Queues) askStore(ctx context.Context, names []string) ([]counter.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if len(names) == 0 { // it may be out of reach all the same
		_, err := q.Store.Now(ctx)
		return nil, err
	}
	return q.Store.Summaries(ctx, q.VHost, names, Arriving)
}

// sight is what the broker said.
type sight struct {
	listed map[string]broker.Listed
	depths map[string]broker.Load // by AMQP, of queues that are not listed
	routes map[string]DeadLetterQueue
	found  map[string][]inspect.Finding // errors of queues
	alarms []inspect.Finding
}

// load returns the load of a queue, unless it is not known.
func (s sight) load(name string) (broker.Load, bool) {
	if l, ok := s.listed[name]; ok {
		return l.Load, true
	}
	l, ok := s.depths[name]
	return l, ok
}

func (q *Queues) askBroker(ctx context.Context) (s sight, err error) {
	ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
	defer cancel()
	if q.conn == nil || q.conn.IsClosed() {
		if q.conn, err = q.Dial(ctx); err != nil {
			return s, err
		}
	}
	conn := q.conn
	release := context.AfterFunc(ctx, func() { _ = conn.CloseDeadline(time.Now()) }) // a request knows no context
	defer release()
	if q.API.Management == "" && q.FindAPI != nil {
		q.API, err = q.FindAPI(ctx, conn, q.API)
	}
	switch {
	case q.API.Management != "":
		return q.list(ctx, conn)
	case len(q.Names) > 0:
		return q.depthsOf(ctx, conn)
	case err != nil:
		return s, fmt.Errorf("%w: %w", ErrNoList, err)
	}
	return s, ErrNoList
}

// list asks the management API about all queues, and now and then, or if there may be new partitions, about exchanges.
func (q *Queues) list(ctx context.Context, conn *amqp.Connection) (sight, error) {
	api, err := q.API.API()
	if err != nil {
		return sight{}, err
	}
	var all []broker.Listed
	every := routesEvery
	if len(q.found) > 0 || q.unsettled {
		every = brokenEvery
	}
	stale := time.Since(q.routesRead) >= every
	var known inspect.Graph
	var alarms []broker.Alarm
	var asking panics.Group
	asking.Go(func() error {
		alarms, _ = api.Alarms(ctx) // the other requests say why the API does not answer
		return nil
	})
	asking.Go(func() error {
		if err := api.Serves(ctx, conn); err != nil {
			return err
		}
		var err error
		all, err = api.List(ctx, q.VHost)
		return err
	})
	exchanges := func() (err error) {
		known.Exchanges, err = inspect.ListExchanges(ctx, api, q.VHost)
		return err
	}
	if stale {
		asking.Go(exchanges)
	}
	err = asking.Wait()
	if err == nil && !stale && slices.ContainsFunc(all, func(l broker.Listed) bool {
		_, known := q.listing.Routes[l.Name]
		return l.SingleActive() && !known
	}) {
		stale, err = true, exchanges()
	}
	if err != nil {
		return sight{}, fmt.Errorf("management API: %w", err)
	}
	if stale {
		product, _ := conn.Properties["product"].(string)
		version := broker.VersionOf(conn)
		for i := range all {
			all[i].Version = version
		}
		known = withQueues(known, all)
		q.listing = known.List()
		q.routes = deadLetterQueues(known, q.listing)
		q.unsettled = slices.ContainsFunc(all, func(l broker.Listed) bool { return !l.PolicyKnown })
		q.found = survey(known, q.listing, product)
		q.judgePartitions(known)
		q.routesRead = time.Now()
	}
	s := sight{listed: map[string]broker.Listed{}, routes: q.routes, found: q.found, alarms: inspect.OfAlarms(alarms)}
	for _, l := range all {
		s.listed[l.Name] = l
	}
	return s, nil
}

// judgePartitions adds the facts about its partitions to those of a queue.
func (q *Queues) judgePartitions(known inspect.Graph) {
	for name, of := range q.listing.Partitions {
		each := make([][]inspect.Finding, len(of))
		for i, partition := range of {
			if known.Queues[partition] == nil {
				each[i] = []inspect.Finding{inspect.MissingPartition(partition)}
				continue
			}
			each[i] = q.found[partition]
			if at, found := q.routes[partition]; found {
				q.routes[name] = at
			}
		}
		if all := inspect.Merged(name, each); len(all) > 0 {
			q.found[name] = all
		}
	}
}

// depthsOf asks AMQP, which knows ready messages and consumers.
func (q *Queues) depthsOf(ctx context.Context, conn *amqp.Connection) (sight, error) {
	s := sight{depths: map[string]broker.Load{}}
	var mu sync.Mutex
	var asking panics.Group
	asking.SetLimit(asked)
	q.listing.Partitions = map[string][]string{}
	ask := func(name string) (bool, error) {
		have, exists, err := declarePassively(ctx, conn, name)
		mu.Lock()
		defer mu.Unlock()
		if exists {
			s.depths[name] = broker.Load{Ready: have.Messages, Consumers: have.Consumers}
		}
		return exists, broker.UnlessRefused(err)
	}
	for _, name := range q.Names {
		asking.Go(func() error {
			exists, err := ask(name)
			if exists || err != nil {
				return err
			}
			n, err := broker.PartitionsOf(ctx, conn, name)
			names := broker.Partitions(name, n)
			for _, partition := range names {
				if _, askErr := ask(partition); err == nil {
					err = askErr
				}
			}
			mu.Lock()
			defer mu.Unlock()
			q.listing.Partitions[name] = names
			return err
		})
	}
	return s, asking.Wait()
}

// wanted returns the queues to summarise: those of the last list if there is none now.
func (q *Queues) wanted(s sight) []string {
	if len(q.Names) > 0 {
		return q.Names
	}
	if s.listed == nil {
		return q.names
	}
	q.names = slices.DeleteFunc(slices.Clone(q.listing.Queues), func(name string) bool {
		_, exists := s.listed[name]
		return !exists && q.listing.Partitions[name] == nil
	})
	for name, l := range s.listed { // a queue that is newer than the listing is no dead-letter queue as far as is known
		if _, known := q.listing.Routes[name]; !known && l.Retried() {
			q.names = append(q.names, name)
		}
	}
	slices.Sort(q.names)
	return q.names
}

// withQueues adds all queues to the exchanges and bindings.
func withQueues(known inspect.Graph, all []broker.Listed) inspect.Graph {
	known.Queues = map[string]*broker.Queue{}
	for i := range all {
		known.Queues[all[i].Name] = &all[i].Queue
	}
	return known.AllKeys()
}

// deadLetterQueues finds the dead-letter queue of each queue. One that is ambiguous has no name.
func deadLetterQueues(known inspect.Graph, listing inspect.Listing) map[string]DeadLetterQueue {
	at := map[string]DeadLetterQueue{}
	for name, route := range listing.Routes {
		to := doctor.Landing{Queues: route.Landings, Unseen: "its route reaches no queue"}
		found, err := chooseLanding(name, to)
		if err != nil {
			found = DeadLetterQueue{Assumed: err}
		}
		if found.Assumed != nil && known.Queues[found.Name] == nil {
			continue
		}
		at[name] = found
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
