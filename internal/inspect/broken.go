package inspect

import "github.com/strikesmq/strikes/internal/queueinfo"

// Broken returns what is wrong with a dead-letter route that leads to no queue; nil if nothing is, or if the queue has none. The graph
// must have all exchanges and queues.
func (g Graph) Broken(of queueinfo.Queue) *Finding {
	exchange, set := of.DeadLetterExchange()
	if !set {
		return nil
	}
	if r := g.Trace(of); r.Open || len(r.Landings)+len(r.Loops)+len(r.Unseen) > 0 {
		return nil
	}
	key, fixed := of.DeadLetterKey()
	x, known := g.Exchanges[exchange]
	var f Finding
	switch {
	case exchange == "":
		f = Say(CodeQueueMissing, Vars{"key": quoted(key)})
	case !known || x.Exists == queueinfo.No:
		f = Say(CodeExchangeMissing, Vars{"exchange": quoted(exchange)})
	case len(x.reached(key, fixed)) == 0:
		f = unbound(Facts{Exchange: x}, Need{}, Vars{"exchange": quoted(exchange), "kind": x.Kind, "key": quoted(key), "keys": keys(x.Bindings)})
	default:
		f = Say(CodeUnbound+"/astray", Vars{"exchange": quoted(exchange)})
	}
	return &f
}
