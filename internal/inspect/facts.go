// Package inspect gathers the facts about a queue and its dead-letter route, and judges them by rules. The texts of
// its findings are in catalogue.txt.
package inspect

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/broker"
)

// Need lists the requirements of consumers on the queue they retry from.
type Need struct {
	Queue      string // must not be empty
	MaxRetries int    // retries after the first failed attempt; if negative, none
	Ordered    bool   // strict order
	AllowDrop  bool   // dead letters may be lost
	HoldQueue  bool   // an exhausted message pauses the queue

	// Closely also looks at the messages and consumers of the queue, and at the dead-letter queues.
	Closely bool

	Management string       // URL of the management API; if empty, AMQP alone is asked
	HTTPClient *http.Client // for Management; if nil, one that keeps no connections
}

// For returns the same needs of another queue.
func (n Need) For(queue string) Need { n.Queue = queue; return n }

// API returns a client of the management API, nil if Need has none.
func (n Need) API() (*broker.API, error) {
	if n.Management == "" {
		return nil, nil
	}
	return broker.NewAPI(n.Management, n.HTTPClient)
}

// Facts are the known facts about a queue. The rules judge only these.
type Facts struct {
	broker.Description
	Of      string      // the partitioned queue, if this is a partition of one; read only if Need.Closely
	Product string      // "RabbitMQ"
	API     *broker.API // nil if none was given, or it did not describe the queue

	Exchange Exchange // the dead-letter exchange, if the queue has one
	Route    Route    // of the dead letters
	Known    Graph    // the exchanges and queues that were looked up for Route

	Vitals *Vitals // nil: not looked for, or not known
}

// Vitals are the facts that only a close look sees.
type Vitals struct {
	broker.State
	Targets []broker.Queue // queues that the dead letters reach
}

// targets returns the queues that dead letters reach by themselves, not only after another queue rejects them.
func (f Facts) targets() []broker.Queue {
	var out []broker.Queue
	for _, l := range f.Route.Landings {
		if q := f.Known.Queues[l.Name]; q != nil && (!l.Behind || l.late) {
			out = append(out, *q)
		}
	}
	return out
}

// conclude sets the facts about the dead-letter exchange, once the route is known.
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
}

// Chooses reports whether the routing key or the headers of a dead letter decide which queues it reaches.
func (f Facts) Chooses() bool {
	return slices.ContainsFunc(f.Route.Landings, func(l Landing) bool { return l.Depends })
}

// Named is the name by which the queue is declared: that of a partition is the name of the partitioned queue.
func (f Facts) Named() string { return cmp.Or(f.Of, f.Name) }

// OwnsExchange reports whether the exchange, by its name, carries only dead letters of this queue.
func (f Facts) OwnsExchange(exchange string) bool { return exchange == broker.ExchangeFor(f.Named()) }

// EndOf names the dead-letter queue of a dead-letter exchange: that of orders.dlx is orders.dlq.
func EndOf(exchange string) string {
	return broker.DeadLetterQueueFor(strings.TrimSuffix(exchange, broker.ExchangeFor("")))
}

// Severity says whether a [Finding] keeps consumers from starting.
type Severity int

const (
	// Warning says that messages or their order are lost in a known situation, or may be.
	Warning Severity = iota + 1
	// Error says that messages are lost, reordered or dead-lettered early, or may be.
	Error
)

// String returns "warning" or "error".
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// MarshalText encodes the severity as String does.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing that is wrong with a queue, or cannot be seen.
type Finding struct {
	Code     string   `json:"code"` // stable, such as "requeue-to-tail"
	Severity Severity `json:"severity"`
	Seen     string   `json:"seen"`
	Impact   string   `json:"impact"`
	Fix      string   `json:"fix"`

	// Commands are lines for a shell that fix it, one after the other. Requests to the management API take its
	// password from RABBITMQ_PASSWORD. Names are quoted in them. Only package doctor writes them.
	Commands []string `json:"commands,omitempty"`
	Repair   string   `json:"repair,omitempty"` // the command of strikes that does it, with its questions

	// About is the dead-letter queue or the policy that the finding is about, if it is not about the queue itself.
	About string `json:"-"`
}

// String returns the finding on one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s; %s. To fix: %s", f.Code, f.Seen, f.Impact, f.Fix)
}

// Severe reports whether the finding is an Error.
func (f Finding) Severe() bool { return f.Severity == Error }

// OfRoute reports whether the finding is about the dead-letter route or the dead-letter queue.
func (f Finding) OfRoute() bool { return strings.Contains(f.Code, "dead-letter") }

// Vars are the values for the {names} in a text.
type Vars map[string]any

// Say returns the finding of an entry of the catalogue.
func Say(entry string, v Vars) Finding {
	code, _, _ := strings.Cut(entry, "/")
	var pairs []string
	for name, value := range v {
		pairs = append(pairs, "{"+name+"}", fmt.Sprint(value))
	}
	fill := strings.NewReplacer(pairs...)
	t := catalogue()[entry]
	return Finding{Code: code, Severity: t.severity, Seen: fill.Replace(t.seen), Impact: fill.Replace(t.impact),
		Fix: fill.Replace(t.fix)}
}

// quoted is a name as it appears in a finding.
func quoted(name string) string { return fmt.Sprintf("%q", name) }

// as returns the finding with another severity.
func (f Finding) as(s Severity) Finding {
	f.Severity = s
	return f
}

// about returns the finding with the name of its subject.
func (f Finding) about(name string) Finding {
	f.About = name
	return f
}
