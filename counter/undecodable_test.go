package counter

import (
	"context"
	"strings"
	"testing"
	"time"
)

type undecodables interface {
	NoteUndecodable(ctx context.Context, vhost, queue string, u Undecodable) error
	Undecodable(ctx context.Context, vhost, queue string) (*Undecodable, error)
}

func TestUndecodable(t *testing.T) {
	for _, s := range stores(t) {
		notes, ok := s.steps.(undecodables)
		if !ok {
			t.Fatalf("%s keeps none", s.name)
		}
		if u, err := notes.Undecodable(t.Context(), "/", "orders"); u != nil || err != nil {
			t.Errorf("%s: before: %+v, %v", s.name, u, err)
		}
		note := func(u Undecodable) {
			t.Helper()
			if err := notes.NoteUndecodable(t.Context(), "/", "orders", u); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
		}
		note(Undecodable{Holder: "a", After: "m4", Error: "deep", Unconverted: true})
		first, err := notes.Undecodable(t.Context(), "/", "orders")
		if err != nil || first == nil {
			t.Fatalf("%s: %+v, %v", s.name, first, err)
		}
		if first.Sessions != 1 || first.Holder != "a" || first.After != "m4" || first.Error != "deep" || !first.Since.Equal(first.At) || first.At.IsZero() {
			t.Errorf("%s: %+v", s.name, first)
		}
		note(Undecodable{Holder: "b", Error: strings.Repeat("x", 2*MaxReason), Sessions: 77, Since: time.Unix(1, 0)})
		u, err := notes.Undecodable(t.Context(), "/", "orders")
		if err != nil || u.Sessions != 2 || u.Holder != "b" || u.After != "m4" || !u.Since.Equal(first.Since) || len(u.Error) > MaxReason {
			t.Errorf("%s: the second: %+v, %v", s.name, u, err)
		}
		for _, other := range [][2]string{{"eu", "orders"}, {"/", "orders.dlq"}} {
			if u, err := notes.Undecodable(t.Context(), other[0], other[1]); u != nil || err != nil {
				t.Errorf("%s: of %v: %+v, %v", s.name, other, u, err)
			}
		}
	}
}

func TestUndecodableExpires(t *testing.T) {
	for _, c := range servers(t) {
		if err := c.NoteUndecodable(t.Context(), "/", "orders", Undecodable{}); err != nil {
			t.Fatal(err)
		}
		if ttl := c.rdb.PTTL(t.Context(), c.undecodableKey("/", "orders")).Val(); ttl <= 0 || ttl > undecodableTTL {
			t.Errorf("TTL %v", ttl)
		}
	}
}
