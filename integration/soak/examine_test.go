package main

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/audit"
)

// TestReadRecord reads a record that the counter wrote: the soak knows the format on its own.
func TestReadRecord(t *testing.T) {
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	store, err := counter.Dial("redis://"+server.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: "order-17"}, Token: "t"}
	if _, err := store.Fail(t.Context(), a, counter.Failure{Limit: 4, Reason: "no stock"}); err != nil {
		t.Fatal(err)
	}
	keys, err := rdb.Keys(t.Context(), "*}:r:*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%q, %v", keys, err)
	}
	e := audit.Event{Key: keys[0]}
	if err := readRecord(t.Context(), rdb, &e); err != nil || e.ID != "order-17" ||
		*e.Record != (audit.Record{Failures: 1, Tokens: ";t=f"}) {
		t.Errorf("%+v, %+v, %v", e, e.Record, err)
	}
}
