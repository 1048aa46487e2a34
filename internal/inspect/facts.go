// Package inspect gathers the facts about a queue and its dead-letter route, and judges them by rules. The text of
// every finding is in catalogue.go.
package inspect

import (
	"net/http"
	"slices"
	"time"

	"github.com/strikesmq/strikes/internal/broker"
)

// Need is what consumers need of the queue they retry from.
type Need struct {
	Queue      string // must not be empty
	MaxRetries int    // retries after the first failed attempt; if negative, none
	Ordered    bool   // strict order
	AllowDrop  bool   // dead letters may be lost

	// Closely also looks at what goes on in the queue, and at the dead-letter queues.
	Closely bool

	// MaxBackoff is the longest wait before a retry; if zero, 30 s. Only a close look uses it.
	MaxBackoff time.Duration

	Management string       // URL of the management API; if empty, AMQP alone is asked
	HTTPClient *http.Client // for Management; if nil, one that keeps no connections
}

// API returns a client of the management API, nil if Need has none.
func (n Need) API() (*broker.API, error) {
	if n.Management == "" {
		return nil, nil //nolint:nilnil // no API is asked for
	}
	return broker.NewAPI(n.Management, n.HTTPClient)
}

// Facts are what is known of a queue. The rules judge nothing else.
type Facts struct {
	broker.Description
	Product string      // "RabbitMQ"
	API     *broker.API // nil if none was given, or it did not describe the queue

	Exchange Exchange // the dead-letter exchange, if the queue has one
	Route    Route    // of the dead letters
	Known    Graph    // what was looked up for Route
	astray   bool     // the dead letters reach exchanges but no queue

	Vitals *Vitals // nil: not looked for, or not known
}

// Vitals are what only a close look sees.
type Vitals struct {
	broker.State
	Targets []broker.Queue // queues that the dead letters reach
}

// targets returns the queues that dead letters reach by themselves, not only after another queue rejects them.
func (f Facts) targets() []broker.Queue {
	var out []broker.Queue
	for _, l := range f.Route.Landings {
		if !l.Behind || l.late {
			out = append(out, *f.Known.Queues[l.Name])
		}
	}
	return out
}

// conclude sets what follows from the route, when all that can be known is known.
func (f *Facts) conclude() {
	exchange, set := f.DeadLetterExchange()
	switch x, found := f.Known.Exchanges[exchange]; {
	case !set:
		return
	case exchange == "":
		f.Exchange = Exchange{Exists: broker.Yes}
	case !found:
		f.Exchange = Exchange{Exists: broker.No}
	default:
		f.Exchange = x
	}
	r := f.Route
	reached := f.Exchange.reached(f.deadLetterKeys())
	f.astray = len(r.Landings)+len(r.Loops)+len(r.Unseen)+len(r.wanted) == 0 && !r.Open && len(reached) > 0 &&
		!slices.ContainsFunc(reached, func(b broker.Binding) bool { return b.DestinationType == "queue" })
}

// deadLetterKeys are the routing keys that dead letters may have.
func (f Facts) deadLetterKeys() keySet {
	if key, fixed := f.DeadLetterKey(); fixed {
		return exactly(key)
	}
	return anyKey()
}

// noNamedQueue reports whether the routing key of dead letters over the default exchange names no queue.
func (f Facts) noNamedQueue() bool {
	exchange, set := f.DeadLetterExchange()
	key, fixed := f.DeadLetterKey()
	return set && fixed && exchange == "" && key != f.Name && f.Known.Queues[key] == nil
}

// OwnsExchange reports whether the exchange, by its name, carries only dead letters of this queue.
func (f Facts) OwnsExchange(exchange string) bool { return exchange == broker.ExchangeFor(f.Name) }
