package inspect

import (
	"slices"
	"strings"
	"testing"
)

// Two patterns meet if a key matches both: all short keys are tried.
func TestPatternsMeet(t *testing.T) {
	var patterns, keys []string
	for _, of := range []struct {
		words []string
		into  *[]string
		most  int
	}{{[]string{"a", "b", "*", "#"}, &patterns, 3}, {[]string{"a", "b", "c"}, &keys, 6}} {
		*of.into = []string{""}
		for begin, n := 0, 1; n <= of.most; n++ {
			end := len(*of.into)
			for _, p := range (*of.into)[begin:end] {
				for _, w := range of.words {
					*of.into = append(*of.into, strings.TrimPrefix(p+"."+w, "."))
				}
			}
			begin = end
		}
	}
	for _, p := range patterns {
		for _, q := range patterns {
			want := slices.ContainsFunc(keys, func(k string) bool {
				return matches(split(p), split(k)) && matches(split(q), split(k))
			})
			if got := topic(p).meets(topic(q)); got != want {
				t.Fatalf("%q and %q: got %v, want %v", p, q, got, want)
			}
		}
	}
	if topic(strings.Repeat("#.", 200) + "x").meets(topic(strings.Repeat("*.", 200) + "y")) {
		t.Error("nothing ends in x and in y")
	}
}

// matches reports whether a topic exchange routes a key to a binding.
func matches(pattern, key []string) bool {
	switch {
	case len(pattern) == 0:
		return len(key) == 0
	case pattern[0] == "#":
		return matches(pattern[1:], key) || len(key) > 0 && matches(pattern, key[1:])
	}
	return len(key) > 0 && (pattern[0] == "*" || pattern[0] == key[0]) && matches(pattern[1:], key[1:])
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ".")
}

func TestKeySet(t *testing.T) {
	of := func(p ...keyPattern) keySet { return append(keySet{}, p...) }
	whole := anyKey()
	tests := []struct {
		keys   keySet
		p      keyPattern
		under  keySet
		within bool
	}{
		{whole, key("a"), of(key("a")), false},
		{whole, topic("a.*"), of(topic("a.*")), false},
		{whole, topic("#"), of(topic("#")), true},
		{of(key("a")), key("a"), of(key("a")), true},
		{of(key("a")), key("b"), of(), false},
		{of(key("a"), key("b")), key("b"), of(key("b")), false},
		{of(key("a.b")), topic("a.*"), of(key("a.b")), true},
		{of(key("a.*")), topic("a.b"), of(), false}, // a key that looks like a pattern
		{of(topic("a.*")), key("a.b"), of(key("a.b")), false},
		{of(topic("a.*")), topic("*.b"), of(topic("a.*")), false}, // too wide, not too narrow
		{of(topic("a.*")), topic("a.*"), of(topic("a.*")), true},
		{of(topic("a.*")), topic("b.*"), of(), false},
	}
	for _, tt := range tests {
		if got := tt.keys.under(tt.p); got.name() != tt.under.name() {
			t.Errorf("%+v under %+v: %+v, want %+v", tt.keys, tt.p, got, tt.under)
		}
		if got := tt.keys.within(tt.p); got != tt.within {
			t.Errorf("%+v within %+v: %v", tt.keys, tt.p, got)
		}
	}
}
