package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// graph is what is known of the exchanges and queues of a dead-letter route. What
// is not in it has not been looked up.
type graph struct {
	exchanges map[string]way
	queues    map[string]*target // nil: there is no such queue
	own       keySet             // the routing keys of the messages in the queue
}

// node is an exchange or a queue; the zero node stands for the routing keys of
// the messages.
type node struct {
	exchange bool
	name     string
}

func (n node) String() string {
	switch {
	case n.exchange && n.name == "":
		return "the default exchange"
	case n.exchange:
		return fmt.Sprintf("exchange %q", n.name)
	}
	return fmt.Sprintf("queue %q", n.name)
}

// route is where the dead letters of a queue go.
type route struct {
	landings []landing
	loops    []loop
	open     bool     // some keys reach queues that cannot be named
	unseen   []string // why it is not wholly known
	wanted   []node   // not looked up yet
}

// landing is a queue that dead letters reach.
type landing struct {
	queue  string
	sure   bool // all dead letters reach it, not only those of some keys or headers
	behind bool // through another queue, which dead-letters on
	late   bool // after the TTL of that queue
}

// loop is a dead-letter route that leads back to its queue.
type loop struct {
	through []node
	delayed bool // one of the queues holds a dead letter until its TTL is over
	last    apiBinding
}

// maxHops bounds how long a route is traced: there may be as many states as
// subsets of the routing keys.
const maxHops = 10_000

// hop is a dead letter on its way.
type hop struct {
	at      node
	keys    keySet
	sure    bool
	delayed bool
	through []node
	last    apiBinding // that led here
}

// state is equal for hops that lead to the same next hops.
func (s hop) state() string {
	return fmt.Sprintf("%v %v %v %q %s", s.at.exchange, s.sure, s.delayed, s.at.name, s.keys.name())
}

// trace follows the dead letters of f through exchanges, and through queues that
// dead-letter on, as far as g knows them.
func (g graph) trace(f facts) route {
	var r route
	first, set := f.deadLetter(hop{keys: g.own, sure: true})
	if !set {
		return r
	}
	seen := map[string]bool{}
	for next := []hop{first}; len(next) > 0; next = next[1:] {
		s := next[0]
		if !s.at.exchange && s.at.name == f.Name {
			r.loop(loop{s.through[:len(s.through)-1], s.delayed, s.last})
			continue
		}
		if seen[s.state()] {
			continue
		}
		seen[s.state()] = true
		if len(seen) > maxHops {
			r.blind("the dead-letter route has too many branches to follow them all")
			return r
		}
		if s.at.exchange {
			next = append(next, g.leave(s, f.Name, &r)...)
		} else {
			next = append(next, g.land(s, &r)...)
		}
	}
	return r
}

// deadLetter returns the hop from a queue to its dead-letter exchange.
func (f facts) deadLetter(s hop) (hop, bool) {
	exchange, set := f.DeadLetterExchange()
	if key, fixed := f.DeadLetterKey(); fixed {
		s.keys = exactly(key)
	}
	return s.to(node{true, exchange}), set
}

func (s hop) to(n node) hop {
	s.at, s.through = n, append(slices.Clip(s.through), n)
	return s
}

// land returns the hops that follow the arrival in a queue.
func (g graph) land(s hop, r *route) []hop {
	t, known := g.queues[s.at.name]
	switch {
	case !known:
		r.want(s.at)
		return nil
	case t == nil:
		return nil
	}
	r.land(landing{s.at.name, s.sure, s.queues() > 1, s.delayed})
	if t.Unread != "" && !t.Exclusive {
		r.blind(fmt.Sprintf("whether %s dead-letters on cannot be seen: %s", s.at, t.Unread))
	}
	ttl, expires := t.TTL()
	s.delayed = s.delayed || expires && ttl > 0
	if on, set := t.deadLetter(s); set {
		return []hop{on}
	}
	return nil
}

// queues counts the queues that the dead letter has been in.
func (s hop) queues() int {
	n := 0
	for _, at := range s.through {
		if !at.exchange {
			n++
		}
	}
	return n
}

// leave returns the hops that follow the arrival at an exchange.
func (g graph) leave(s hop, source string, r *route) []hop {
	if s.at.name == "" {
		return g.leaveDefault(s, source, r)
	}
	w, known := g.exchanges[s.at.name]
	switch {
	case !known:
		r.want(s.at)
		return nil
	case w.exchange == queueinfo.No:
		return nil
	case !w.bound:
		r.blind(fmt.Sprintf("what is bound to the exchange %q cannot be seen", s.at.name))
		return nil
	case !s.keys.asked && (w.kind == "direct" || w.kind == "topic"):
		r.want(node{})
		return nil
	}
	var out []hop
	for _, b := range w.bindings {
		keys, sure := w.takes(b, s.keys)
		if keys.empty() {
			continue
		}
		on := s
		on.keys, on.sure, on.last = keys, s.sure && sure, b
		out = append(out, on.to(node{b.DestinationType == "exchange", b.Destination}))
	}
	if w.alternateTo != "" && !w.takesEvery(s.keys) {
		on := s
		on.sure = s.sure && len(out) == 0
		out = append(out, on.to(node{true, w.alternateTo}))
	}
	return out
}

// leaveDefault is leave for the default exchange, which routes to the queue whose
// name is the routing key. So an unknown key may lead to any queue.
func (g graph) leaveDefault(s hop, source string, r *route) []hop {
	if !s.keys.asked {
		r.want(node{})
		return nil
	}
	names := s.keys.one
	if s.keys.any {
		names = []keyPattern{{text: source}}
		r.open = true
	}
	var out []hop
	for _, p := range names {
		if p.topic {
			r.open = true
			if !p.meets(keyPattern{text: source}) {
				continue
			}
			p = keyPattern{text: source}
		}
		on := s
		on.keys, on.sure, on.last = exactly(p.text), s.sure && !s.keys.any && len(names) == 1, apiBinding{}
		out = append(out, on.to(node{name: p.text}))
	}
	return out
}

// takes returns the keys that the binding may let through, and whether it lets
// all given keys through.
func (w way) takes(b apiBinding, keys keySet) (taken keySet, sure bool) {
	switch w.kind {
	case "fanout":
		return keys, true
	case "direct", "topic":
		p := w.pattern(b)
		return keys.under(p), keys.within(p)
	case "headers":
		return keys, b.takesAll()
	}
	return keys, false
}

// pattern returns the keys that a binding to a direct or topic exchange lets through.
func (w way) pattern(b apiBinding) keyPattern {
	return keyPattern{b.Key, w.kind == "topic" && strings.ContainsAny(b.Key, "*#")}
}

// takesEvery reports whether each of the keys surely finds a binding.
func (w way) takesEvery(keys keySet) bool {
	each := []keySet{keys}
	if keys.asked && !keys.any {
		each = nil
		for _, k := range keys.one {
			each = append(each, keySet{asked: true, one: []keyPattern{k}})
		}
	}
	for _, k := range each {
		if !slices.ContainsFunc(w.bindings, func(b apiBinding) bool { _, sure := w.takes(b, k); return sure }) {
			return false
		}
	}
	return true
}

// takesAll reports whether a binding to a headers exchange names no header.
func (b apiBinding) takesAll() bool {
	for name := range b.Arguments {
		if name != "x-match" {
			return false
		}
	}
	match, _ := b.Arguments["x-match"].(string)
	return match == "" || strings.HasPrefix(match, "all")
}

func (r *route) want(n node) {
	if !slices.Contains(r.wanted, n) {
		r.wanted = append(r.wanted, n)
	}
}

func (r *route) blind(why string) {
	if !slices.Contains(r.unseen, why) {
		r.unseen = append(r.unseen, why)
	}
}

// loop keeps one loop for each last binding.
func (r *route) loop(l loop) {
	if !slices.ContainsFunc(r.loops, func(have loop) bool {
		return have.delayed == l.delayed && have.exchange() == l.exchange() && have.last.Properties == l.last.Properties
	}) {
		r.loops = append(r.loops, l)
	}
}

// land keeps one landing for each queue; it is sure if one branch of the route is.
func (r *route) land(l landing) {
	i := slices.IndexFunc(r.landings, func(have landing) bool { return have.queue == l.queue })
	if i < 0 {
		r.landings = append(r.landings, l)
		return
	}
	have := &r.landings[i]
	have.sure, have.behind, have.late = have.sure || l.sure, have.behind && l.behind, have.late || l.late
}
