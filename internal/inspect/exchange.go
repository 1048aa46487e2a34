package inspect

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/broker"
)

// Exchange has the known facts about an exchange.
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
	policies, err := api.Policies(ctx, vhost)
	if err != nil {
		return nil, err
	}
	from := map[string][]broker.Binding{}
	for _, b := range bindings {
		from[b.Source] = append(from[b.Source], b)
	}
	all := map[string]Exchange{}
	for _, x := range exchanges {
		all[x.Name] = known(x, from[x.Name], policies.User)
	}
	return all, nil
}

// key is the routing key of a dead letter, if it is known.
type key struct {
	text string
	any  bool // it may be every key
}

func exactly(text string) key { return key{text: text} }

var anyKey = key{any: true}

// takes judges a binding for the dead letters of key k. It returns the key of those that the binding lets through,
// whether it may let some through, and whether it lets all through. It ignores the keys in a message's CC header.
func (x Exchange) takes(b broker.Binding, k key) (on key, some, all bool) {
	switch x.Kind {
	case "fanout":
		return k, true, true
	case "direct", "topic":
		wild := x.Kind == "topic" && strings.ContainsAny(b.Key, "*#")
		switch {
		case k.any && !wild:
			return exactly(b.Key), true, false
		case k.any:
			return k, true, b.Key == "#"
		}
		fits := wild && matches(b.Key, k.text) || !wild && b.Key == k.text
		return k, fits, fits
	case "headers": // one that names no header takes all
		names := slices.DeleteFunc(slices.Collect(maps.Keys(b.Arguments)), func(n string) bool { return n == "x-match" })
		match, _ := b.Arguments["x-match"].(string)
		return k, true, len(names) == 0 && (match == "" || strings.HasPrefix(match, "all"))
	}
	return k, true, false
}

// takesEvery reports whether each dead letter of the key surely finds a binding.
func (x Exchange) takesEvery(k key) bool {
	return slices.ContainsFunc(x.Bindings, func(b broker.Binding) bool { _, _, all := x.takes(b, k); return all })
}

// matches reports whether a topic exchange routes a key to a binding: * is one word, and # any number of words. Word by
// word of the pattern, it notes which beginnings of the key match: a hostile pattern of many # must not cost more.
func matches(pattern, text string) bool {
	var words []string
	if text != "" {
		words = strings.Split(text, ".")
	}
	row := make([]bool, len(words)+1)
	row[0] = true
	for w := range strings.SplitSeq(pattern, ".") {
		next := make([]bool, len(words)+1)
		for j := range next {
			switch {
			case w == "#":
				next[j] = row[j] || j > 0 && next[j-1]
			case j > 0:
				next[j] = row[j-1] && (w == "*" || w == words[j-1])
			}
		}
		row = next
	}
	return row[len(words)]
}
