package inspect

import (
	"context"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/broker"
)

// Exchange is what is known of an exchange.
type Exchange struct {
	Exists    broker.Answer
	Kind      string // "fanout", "direct", …; empty: not known
	Bindings  []broker.Binding
	Bound     bool   // Bindings are known
	Alternate string // the exchange that takes unrouted messages
}

// known is an exchange and its bindings, as the API shows them. An alternate exchange is set by an argument, or by one
// of the policies.
func known(x broker.Exchange, bindings []broker.Binding, policies []broker.Policy) Exchange {
	out := Exchange{Exists: broker.Yes, Kind: x.Type, Bindings: bindings, Bound: true}
	out.Alternate, _ = x.Arguments["alternate-exchange"].(string)
	if i := slices.IndexFunc(policies, func(p broker.Policy) bool { return p.Name == x.Policy }); i >= 0 &&
		out.Alternate == "" {
		out.Alternate, _ = policies[i].Definition["alternate-exchange"].(string)
	}
	return out
}

// ListExchanges returns all exchanges of a virtual host by name.
func ListExchanges(ctx context.Context, api *broker.API, vhost string) (map[string]Exchange, error) {
	exchanges, err := api.Exchanges(ctx, vhost)
	if err != nil {
		return nil, err
	}
	bindings, err := api.AllBindings(ctx, vhost)
	if err != nil {
		return nil, err
	}
	policies, err := api.UserPolicies(ctx, vhost)
	if err != nil {
		return nil, err
	}
	from := map[string][]broker.Binding{}
	for _, b := range bindings {
		from[b.Source] = append(from[b.Source], b)
	}
	all := map[string]Exchange{}
	for _, x := range exchanges {
		all[x.Name] = known(x, from[x.Name], policies)
	}
	return all, nil
}

// takes returns the keys that the binding may let through, and whether it lets all given keys through.
func (x Exchange) takes(b broker.Binding, keys keySet) (taken keySet, sure bool) {
	switch x.Kind {
	case "fanout":
		return keys, true
	case "direct", "topic":
		p := x.pattern(b)
		return keys.under(p), keys.within(p)
	case "headers":
		return keys, takesAll(b)
	}
	return keys, false
}

// pattern returns the keys that a binding to a direct or topic exchange lets through.
func (x Exchange) pattern(b broker.Binding) keyPattern {
	return keyPattern{b.Key, x.Kind == "topic" && strings.ContainsAny(b.Key, "*#")}
}

// takesEvery reports whether each of the keys surely finds a binding.
func (x Exchange) takesEvery(keys keySet) bool {
	each := []keySet{keys}
	if keys.asked && !keys.any {
		each = nil
		for _, k := range keys.one {
			each = append(each, keySet{asked: true, one: []keyPattern{k}})
		}
	}
	for _, k := range each {
		if !slices.ContainsFunc(x.Bindings, func(b broker.Binding) bool { _, sure := x.takes(b, k); return sure }) {
			return false
		}
	}
	return true
}

// takesAll reports whether a binding to a headers exchange names no header.
func takesAll(b broker.Binding) bool {
	for name := range b.Arguments {
		if name != "x-match" {
			return false
		}
	}
	match, _ := b.Arguments["x-match"].(string)
	return match == "" || strings.HasPrefix(match, "all")
}

// reached returns the bindings that a dead letter may take. Only a direct or topic exchange with a fixed key rules one
// out.
func (x Exchange) reached(keys keySet) []broker.Binding {
	return slices.DeleteFunc(slices.Clone(x.Bindings), func(b broker.Binding) bool {
		taken, _ := x.takes(b, keys)
		return taken.empty()
	})
}

// Picks reports whether some keys find no binding.
func (x Exchange) Picks() bool {
	return (x.Kind == "direct" || x.Kind == "topic") && !x.takesEvery(anyKey())
}
