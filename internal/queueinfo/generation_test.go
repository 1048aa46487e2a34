package queueinfo

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

func death(queue, reason string, count int64, at time.Time) amqp.Table {
	return amqp.Table{"queue": queue, "reason": reason, "count": count, "time": at, "exchange": "x", "routing-keys": []any{"k", "l"}}
}

func TestGeneration(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	for _, tt := range []struct {
		name   string
		deaths []any
		header any
		want   string
	}{
		{"published", nil, nil, ""},
		{"replayed", nil, "2-1700000000-1", "header:2-1700000000-1"},
		{"moved back", []any{death("q", "rejected", 3, at)}, nil, "3@1700000000"},
		{"by the delivery limit", []any{death("q", "delivery_limit", 1, at)}, nil, "1@1700000000"},
		{"both", []any{death("q", "rejected", 1, at)}, "a", "1@1700000000 header:a"},
		{"expired, then rejected", []any{death("q", "expired", 9, at), death("other", "rejected", 8, at), death("q", "rejected", 2, at)}, nil, "2@1700000000"},
		{"malformed", []any{"x", amqp.Table{"queue": 7}, amqp.Table{"queue": "q", "reason": "rejected"}}, 7, ""},
	} {
		headers := amqp.Table{GenerationHeader: tt.header}
		if tt.deaths != nil {
			headers["x-death"] = tt.deaths
		}
		got := Generation(headers, "q")
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if count, since, ok := ParseGeneration(got); ok && GenerationAfter(headers, count, since) != got {
			t.Errorf("%s: %q is read as %d at %v", tt.name, got, count, since)
		}
	}
}

func TestDeaths(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	got := Deaths(amqp.Table{"x-death": []any{death("q", "rejected", 2, at), 7, amqp.Table{"queue": "p", "count": int32(3), "routing-keys": []any{}}, amqp.Table{}}})
	want := []Death{{Queue: "q", Exchange: "x", Key: "k", Reason: "rejected", Time: at, Count: 2}, {Queue: "p", Count: 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := Deaths(amqp.Table{"x-death": "no list"}); got != nil {
		t.Errorf("no list: %v", got)
	}
}
