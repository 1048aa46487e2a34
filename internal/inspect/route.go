package inspect

import (
	"cmp"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// Graph has the known exchanges and queues of a dead-letter route. The others have not been looked up.
type Graph struct {
	Exchanges map[string]Exchange
	Queues    map[string]*broker.Queue // nil: there is no such queue
}

// NewGraph returns the graph of a whole virtual host.
func NewGraph(exchanges map[string]Exchange, queues []broker.Listed) Graph {
	g := Graph{Exchanges: exchanges, Queues: map[string]*broker.Queue{}}
	for i := range queues {
		g.Queues[queues[i].Name] = &queues[i].Queue
	}
	return g
}

// Node is an exchange or a queue.
type Node struct {
	Exchange bool
	Name     string
}

func (n Node) String() string {
	switch {
	case n.Exchange && n.Name == "":
		return "the default exchange"
	case n.Exchange:
		return fmt.Sprintf("exchange %q", n.Name)
	}
	return fmt.Sprintf("queue %q", n.Name)
}

// Route is where the dead letters of a queue go.
type Route struct {
	Landings []Landing
	Loops    []Loop
	Open     bool     // some keys reach queues that cannot be named
	Unseen   []string // why it is not wholly known
	wanted   []Node   // not looked up yet
	picky    string   // the first exchange that drops some dead letters; empty: none does
}

// Landing is a queue that dead letters reach.
type Landing struct {
	Name string

	// Depends: only dead letters with some routing keys, or headers, reach it.
	Depends bool

	// Behind: a dead letter comes here when another of the queues dead-letters it, not when a consumer rejects it.
	Behind bool
	late   bool // after the TTL of that queue

	Away bool // it does not answer, so it takes no dead letter

	// Delay: dead letters do not stay. After its TTL the queue dead-letters them further, maybe back to where they died.
	Delay bool
}

// Loop is a dead-letter route that leads back to its queue.
type Loop struct {
	through []Node
	delayed bool           // one of the queues holds a dead letter until its TTL is over
	Last    broker.Binding // that leads to the queue
}

// Exchange returns the last one before the queue.
func (l Loop) Exchange() string { return l.through[len(l.through)-1].Name }

// LastQueue returns the last one before the queue itself; the zero Node if there is none.
func (l Loop) LastQueue() Node {
	for _, n := range slices.Backward(l.through) {
		if !n.Exchange {
			return n
		}
	}
	return Node{}
}

// hop is a dead letter on its route.
type hop struct {
	state
	through []Node
	queues  int            // of through
	last    broker.Binding // that led here
}

// state is equal for hops that lead to the same next hops.
type state struct {
	at      Node
	key     key
	sure    bool // each dead letter comes here
	delayed bool
}

// Trace follows the dead letters of a queue through exchanges, and through queues that dead-letter on, as far as g
// knows them.
func (g Graph) Trace(of broker.Queue) Route {
	var r Route
	first, set := deadLetter(of, hop{state: state{key: anyKey, sure: true}})
	if !set {
		return r
	}
	seen := map[state]bool{}
	for next := []hop{first}; len(next) > 0; next = next[1:] {
		s := next[0]
		switch {
		case !s.at.Exchange && s.at.Name == of.Name:
			r.Loops = append(r.Loops, Loop{s.through[:len(s.through)-1], s.delayed, s.last})
		case seen[s.state]:
			continue
		case s.at.Exchange:
			next = append(next, g.leave(s, of.Name, &r)...)
		default:
			next = append(next, g.land(s, &r)...)
		}
		seen[s.state] = true
	}
	return r
}

// TraceThrough is Trace for the queue with another dead-letter exchange.
func (g Graph) TraceThrough(of broker.Queue, exchange string) Route {
	of.Args = broker.Merge(of.Args, amqp.Table{broker.ArgDeadLetterExchange: exchange})
	return g.Trace(of)
}

// deadLetter returns the hop from a queue to its dead-letter exchange.
func deadLetter(q broker.Queue, s hop) (hop, bool) {
	exchange, set := q.DeadLetterExchange()
	if key, fixed := q.DeadLetterKey(); fixed {
		s.key = exactly(key)
	}
	return s.to(Node{true, exchange}), set
}

func (s hop) to(n Node) hop {
	s.at, s.through = n, append(slices.Clip(s.through), n)
	if !n.Exchange {
		s.queues++
	}
	return s
}

// land returns the hops that follow the arrival in a queue.
func (g Graph) land(s hop, r *Route) []hop {
	q, known := g.Queues[s.at.Name]
	switch {
	case known && q == nil, s.at.Name == "": // no queue has the empty name
		return nil
	case !known:
		r.want(s.at)
		return nil
	}
	ttl, expires := q.TTL()
	on, deadLetters := deadLetter(*q, s)
	r.land(Landing{Name: q.Name, Depends: !s.sure, Behind: s.queues > 1, Away: q.Away, late: s.delayed,
		Delay: deadLetters && expires})
	if q.Away {
		return nil
	}
	if q.Unread != "" && !q.Exclusive {
		r.blind(fmt.Sprintf("whether %s dead-letters on cannot be seen: %s", s.at, q.Unread))
	}
	if !deadLetters {
		return nil
	}
	on.delayed = s.delayed || expires && ttl > 0
	return []hop{on}
}

// leave returns the hops that follow the arrival at an exchange.
func (g Graph) leave(s hop, source string, r *Route) []hop {
	if s.at.Name == "" {
		return leaveDefault(s, source, r)
	}
	x, known := g.Exchanges[s.at.Name]
	switch {
	case !known:
		r.want(s.at)
		return nil
	case x.Exists == broker.No:
		return nil
	case !x.Bound:
		r.blind(fmt.Sprintf("the bindings of the exchange %q cannot be seen", s.at.Name))
		return nil
	}
	var out []hop
	for _, b := range x.Bindings {
		key, some, all := x.takes(b, s.key)
		if !some {
			continue
		}
		on := s
		on.key, on.sure, on.last = key, s.sure && all, b
		out = append(out, on.to(Node{b.DestinationType == "exchange", b.Destination}))
	}
	switch {
	case x.takesEvery(s.key):
	case x.Alternate == "" && slices.Contains([]string{"direct", "topic", "headers"}, x.Kind): // others are not known
		r.picky = cmp.Or(r.picky, s.at.Name)
	case x.Alternate != "":
		on := s
		on.sure = s.sure && len(out) == 0
		out = append(out, on.to(Node{true, x.Alternate}))
	}
	return out
}

// leaveDefault returns the hop that follows the arrival at the default exchange, which routes to the queue with the
// name of the routing key. An unknown key may lead to any queue, and to the source.
func leaveDefault(s hop, source string, r *Route) []hop {
	if s.key.any {
		r.Open = true
		s.key, s.sure = exactly(source), false
	}
	s.last = broker.Binding{}
	return []hop{s.to(Node{Name: s.key.text})}
}

func (r *Route) want(n Node) {
	if !slices.Contains(r.wanted, n) {
		r.wanted = append(r.wanted, n)
	}
}

func (r *Route) blind(why string) {
	if !slices.Contains(r.Unseen, why) {
		r.Unseen = append(r.Unseen, why)
	}
}

// land keeps one landing for each queue; it is sure if one branch of the route is.
func (r *Route) land(l Landing) {
	i := slices.IndexFunc(r.Landings, func(have Landing) bool { return have.Name == l.Name })
	if i < 0 {
		r.Landings = append(r.Landings, l)
		return
	}
	have := &r.Landings[i]
	have.Depends, have.Behind, have.late = have.Depends && l.Depends, have.Behind && l.Behind, have.late || l.late
}
