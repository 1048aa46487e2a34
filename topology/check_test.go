package topology

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckNeeds(t *testing.T) {
	for name, want := range map[string]string{
		"": "topology: queue: the name is empty", "a\xff": "not UTF-8", "a\nb": "line break",
		strings.Repeat("é", 128): "256 bytes",
	} { // a nil connection: nothing may be asked of the broker
		if err := Check(context.Background(), nil, Need{Queue: name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	var refused *FieldError
	for _, n := range []int{-1, 1, 257} {
		err := Check(context.Background(), nil, Need{Queue: "q", Partitions: n})
		if !errors.As(err, &refused) || refused.Field != "Partitions" {
			t.Errorf("%d partitions: %v", n, err)
		}
	}
	err := Check(context.Background(), nil, Need{Queue: "q", Management: "amqp://u:sesame@h"})
	if !errors.As(err, &refused) || refused.Field != "Management" || strings.Contains(err.Error(), "sesame") {
		t.Errorf("not a URL: %v", err)
	}
}

// TestNilConnection: a program whose dial failed gets an error, and does not panic.
func TestNilConnection(t *testing.T) {
	for name, call := range map[string]func() error{
		"Check":         func() error { return Check(t.Context(), nil, Need{Queue: "orders"}) },
		"its partition": func() error { return Check(t.Context(), nil, Need{Queue: "orders.0"}) },
		"partitions":    func() error { return Check(t.Context(), nil, Need{Queue: "orders", Partitions: 2}) },
		"CheckRoute":    func() error { return CheckRoute(t.Context(), nil, Need{Queue: "orders"}) },
		"Declare":       func() error { return Declare(t.Context(), nil, Spec{Queue: "orders"}) },
		"Repartition":   func() error { return Repartition(t.Context(), nil, Spec{Queue: "orders", Partitions: 2}) },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "the connection is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefusedError(t *testing.T) {
	a := Finding{Code: "a", Seen: "seen", Impact: "impact", Fix: "fix"}
	one := &RefusedError{Queue: "q", Findings: []Finding{a}}
	if got, want := one.Error(), `topology: queue "q" refused: a: seen; impact. To fix: fix`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	two := &RefusedError{Queue: "q", Findings: []Finding{a, a}}
	want := "topology: queue \"q\" refused for 2 reasons\n  1. a: seen; impact. To fix: fix\n  2. a: seen; impact. To " +
		"fix: fix"
	if got := two.Error(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
