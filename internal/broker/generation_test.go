package broker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

func death(queue, reason string, count any, at time.Time) amqp.Table {
	return amqp.Table{"queue": queue, "reason": reason, "count": count, "time": at, "exchange": "x",
		"routing-keys": []any{"k", "l"}}
}

func TestGeneration(t *testing.T) {
	noon := time.Unix(1_700_000_000, 0)
	for _, tt := range []struct {
		name    string
		headers amqp.Table
		want    string
	}{
		{"no headers", nil, ""},
		{"other headers", amqp.Table{"x": "y"}, ""},
		{"rejected here", amqp.Table{"x-death": []any{death("q", "rejected", int64(1), noon)}}, "1@1700000000"},
		{"past the delivery limit here", amqp.Table{"x-death": []any{death("q", "delivery_limit", int64(2), noon)}},
			"2@1700000000"},
		{"expired here", amqp.Table{"x-death": []any{death("q", "expired", int64(1), noon)}}, ""},
		{"rejected elsewhere", amqp.Table{"x-death": []any{death("bills", "rejected", int64(1), noon)}}, ""},
		{"the newest of several", amqp.Table{"x-death": []any{
			death("q.dlq", "expired", int64(9), noon), death("q", "rejected", int64(3), noon.Add(time.Second)),
			death("q", "delivery_limit", int64(1), noon),
		}}, "3@1700000001"},
		{"count of another width", amqp.Table{"x-death": []any{death("q", "rejected", int32(4), noon)}}, "4@1700000000"},
		{"the header of a replay", amqp.Table{GenerationHeader: "r1"}, "header:r1"},
		{"dead again since the replay, and moved back", amqp.Table{GenerationHeader: "r1",
			"x-death": []any{death("q", "rejected", int64(1), noon)}}, "1@1700000000 header:r1"},
		{"dead elsewhere since the replay", amqp.Table{GenerationHeader: "r1",
			"x-death": []any{death("bills", "rejected", int64(1), noon)}}, "header:r1"},
		{"an empty header", amqp.Table{GenerationHeader: ""}, ""},
		{"a header that is no text", amqp.Table{GenerationHeader: int64(1)}, ""},
		{"x-death that is no list", amqp.Table{"x-death": "yesterday"}, ""},
		{"x-death of no tables", amqp.Table{"x-death": []any{"a", nil, int64(1)}}, ""},
		{"x-death without fields", amqp.Table{"x-death": []any{amqp.Table{}}}, ""},
		{"x-death with odd fields", amqp.Table{"x-death": []any{amqp.Table{"queue": "q", "reason": []any{}}}}, ""},
		{"rejected, with odd count and time", amqp.Table{"x-death": []any{amqp.Table{"queue": "q", "reason": "rejected",
			"count": "many", "time": "late"}}}, ""},
		{"a header that ends in a space", amqp.Table{GenerationHeader: "r1 ",
			"x-death": []any{death("q", "rejected", int64(1), noon)}}, "1@1700000000 header:r1 "},
	} {
		headers := Merge(tt.headers)
		WriteFor(headers, "q", "17", nil)
		h := ReadHeaders(headers, "q", "17", nil)
		got := h.Generation()
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if count, since, ok := ParseGeneration(got); ok && h.GenerationAfter(count, since) != got {
			t.Errorf("%s: %q is read as %d at %v", tt.name, got, count, since)
		}
	}
}

func TestDeaths(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	got := Deaths(amqp.Table{"x-death": []any{death("q", "rejected", int64(2), at), 7, amqp.Table{"queue": "p",
		"count": int32(3), "routing-keys": []any{}}, amqp.Table{}}})
	want := []Death{{Queue: "q", Exchange: "x", Key: "k", Reason: "rejected", Time: at, Count: 2}, {Queue: "p", Count: 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := Deaths(amqp.Table{"x-death": "no list"}); got != nil {
		t.Errorf("no list: %v", got)
	}
}
