package main

import "testing"

func TestParseBinding(t *testing.T) {
	tests := []struct {
		text, exchange, key string
		hasKey              bool
	}{
		{"shop:order.paid", "shop", "order.paid", true},
		{"shop", "shop", "", false},
		{"shop:", "shop", "", true},
		{"shop:order:paid", "shop", "order:paid", true},
		{`Contracts\:OrderPaid`, "Contracts:OrderPaid", "", false},
		{`Contracts\:OrderPaid:a\:b`, "Contracts:OrderPaid", `a\:b`, true},
		{`C:\\x`, "C", `\\x`, true},
		{`back\\slash:k`, `back\slash`, "k", true},
		{`end\`, `end\`, "", false},
		{":key", "", "key", true},
		{"", "", "", false},
	}
	for _, tt := range tests {
		if b, hasKey := parseBinding(tt.text); b.Exchange != tt.exchange || b.Key != tt.key || hasKey != tt.hasKey {
			t.Errorf("%q: %+v, %v", tt.text, b, hasKey)
		}
	}
}
