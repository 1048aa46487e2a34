package rig

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/audit"
)

// TestKept reads a record that the counter wrote: the laboratory knows the format on its own.
func TestKept(t *testing.T) {
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
	all, err := kept(t.Context(), rdb)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, e := range all {
		if e.TTL <= 0 {
			t.Errorf("%q does not expire", e.Key)
		}
		if e.ID != "" {
			found++
			if e.ID != "order-17" || *e.Record != (audit.Record{Failures: 1, Tokens: ";t=f"}) {
				t.Errorf("%+v, %+v", e, e.Record)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d records: %+v", found, all)
	}
}

func TestReadRecordRefusesAnotherLayout(t *testing.T) {
	words := "1 0 0 0 0 . 0 0 0 0 0 . . 0 0 4 0 . . . 2 0 0 0 0"
	if err := readRecord(words+"\nm1", &audit.Event{}); err != nil {
		t.Errorf("a record: %v", err)
	}
	for _, text := range []string{"", "1 0", "many" + words[1:] + "\nm1", words + "\nm"} {
		if err := readRecord(text, &audit.Event{}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
