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
	case "headers": // one that names no header takes all
		names := slices.DeleteFunc(slices.Collect(maps.Keys(b.Arguments)), func(n string) bool { return n == "x-match" })
		match, _ := b.Arguments["x-match"].(string)
		return keys, len(names) == 0 && (match == "" || strings.HasPrefix(match, "all"))
	}
	return keys, false
}

// pattern returns the keys that a binding to a direct or topic exchange lets through.
func (x Exchange) pattern(b broker.Binding) keyPattern {
	return keyPattern{b.Key, x.Kind == "topic" && strings.ContainsAny(b.Key, "*#")}
}

// takesEvery reports whether each of the keys surely finds a binding.
func (x Exchange) takesEvery(keys keySet) bool {
	if keys == nil {
		keys = anyKey()
	}
	return !slices.ContainsFunc(keys, func(k keyPattern) bool {
		return !slices.ContainsFunc(x.Bindings, func(b broker.Binding) bool { _, sure := x.takes(b, keySet{k}); return sure })
	})
}

// reached returns the bindings that a dead letter may take. Only a direct or topic exchange with a fixed key rules one
// out.
func (x Exchange) reached(keys keySet) []broker.Binding {
	return slices.DeleteFunc(slices.Clone(x.Bindings), func(b broker.Binding) bool {
		taken, _ := x.takes(b, keys)
		return taken.empty()
	})
}

// keySet is the set of possible routing keys of a dead letter, each of which matches one of the patterns. If nil, they
// are not looked up yet.
type keySet []keyPattern

// keyPattern is a routing key, or the pattern that one matched.
type keyPattern struct {
	text  string
	topic bool // * and # are wildcards
}

func exactly(key string) keySet { return keySet{{text: key}} }

func anyKey() keySet { return keySet{{"#", true}} }

// name is equal for equal sets.
func (s keySet) name() string {
	var b strings.Builder
	for _, p := range s {
		b.WriteString("\x00" + p.text)
		if p.topic {
			b.WriteString("\x00topic")
		}
	}
	return b.String()
}

// meets reports whether a key may match both. Row by row it computes which beginnings of both match a common key: a
// hostile pattern of many # must not cost more.
func (p keyPattern) meets(q keyPattern) bool {
	a, b := p.words(), q.words()
	row := make([]bool, len(b)+1)
	for i := 0; i <= len(a); i++ {
		next := make([]bool, len(b)+1)
		for j := 0; j <= len(b); j++ {
			switch {
			case i == 0 && j == 0:
				next[j] = true
			case i > 0 && a[i-1] == "#" && row[j], j > 0 && b[j-1] == "#" && next[j-1]:
				next[j] = true // # takes no word
			case i > 0 && j > 0:
				next[j] = a[i-1] == "#" && next[j-1] || b[j-1] == "#" && row[j] ||
					row[j-1] && (a[i-1] == b[j-1] || a[i-1] == "*" || b[j-1] == "*" || a[i-1] == "#" || b[j-1] == "#")
			}
		}
		row = next
	}
	return row[len(b)]
}

// words are those of the pattern. In a topic, * is one word and # any number of words; another word has "=" before it,
// because a key may have a word * or #, which is no wildcard.
func (p keyPattern) words() []string {
	if p.text == "" {
		return nil
	}
	words := strings.Split(p.text, ".")
	for i, w := range words {
		if !p.topic || w != "*" && w != "#" {
			words[i] = "=" + w
		}
	}
	return words
}

// within reports whether each key of p surely matches q.
func (p keyPattern) within(q keyPattern) bool {
	switch {
	case p == q, q.topic && q.text == "#":
		return true
	case p.topic:
		return false
	}
	return p.meets(q)
}

// under returns the keys of the set that match the pattern. If it cannot be exact it returns too many, never too few.
// It does not know further keys in a message's CC header.
func (s keySet) under(p keyPattern) keySet {
	out := keySet{}
	for _, k := range s {
		switch {
		case !k.meets(p):
		case k.topic && (!p.topic || k.text == "#"):
			out = append(out, p)
		default:
			out = append(out, k)
		}
	}
	return slices.Compact(out)
}

func (s keySet) empty() bool { return s != nil && len(s) == 0 }

// within reports whether every key of the set surely matches the pattern.
func (s keySet) within(p keyPattern) bool {
	return !slices.ContainsFunc(s, func(k keyPattern) bool { return !k.within(p) })
}
