package counter

import (
	"strings"
	"testing"
)

func TestUndecodable(t *testing.T) {
	for _, s := range stores(t) {
		noted := func(vhost, queue, want string) {
			t.Helper()
			if got, err := s.State(t.Context(), vhost, queue); got.Undecodable != want || err != nil {
				t.Errorf("%s: of %s in %s: %.20q, %v, want %.20q", s.name, queue, vhost, got.Undecodable, err, want)
			}
		}
		noted("/", "orders", "")
		for _, why := range []string{"deep", strings.Repeat("x", 2*MaxReason)} {
			needOf(t, s.name, s.NoteUndecodable(t.Context(), "/", "orders", why))
			noted("/", "orders", why[:min(len(why), MaxReason)])
		}
		noted("eu", "orders", "")
		noted("/", "orders.dlq", "")
	}
}

func TestUndecodableExpires(t *testing.T) {
	for _, c := range counters(t) {
		need(t, c.NoteUndecodable(t.Context(), "/", "orders", "deep"))
		now, docs, err := c.store.Load(t.Context(), Queue{"/", "orders"}, docUndecodable)
		if ttl := docs[0].Expires.Sub(now); err != nil || ttl <= 0 || ttl > undecodableTTL {
			t.Errorf("TTL %v, %v", ttl, err)
		}
	}
}
