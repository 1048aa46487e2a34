package consumer

import (
	"encoding/json"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func death(queue, reason string, count any, at time.Time) amqp.Table {
	return amqp.Table{"queue": queue, "reason": reason, "count": count, "time": at}
}

func TestLife(t *testing.T) {
	noon := time.Unix(1_700_000_000, 0)
	for _, tc := range []struct {
		name    string
		headers amqp.Table
		want    string
	}{
		{"no headers", nil, ""},
		{"other headers", amqp.Table{"x": "y"}, ""},
		{"rejected here", amqp.Table{"x-death": []any{death("orders", "rejected", int64(1), noon)}}, "1@1700000000"},
		{"past the delivery limit here", amqp.Table{"x-death": []any{death("orders", "delivery_limit", int64(2), noon)}}, "2@1700000000"},
		{"expired here", amqp.Table{"x-death": []any{death("orders", "expired", int64(1), noon)}}, ""},
		{"rejected elsewhere", amqp.Table{"x-death": []any{death("bills", "rejected", int64(1), noon)}}, ""},
		{"the newest of several", amqp.Table{"x-death": []any{
			death("orders.dlq", "expired", int64(9), noon), death("orders", "rejected", int64(3), noon.Add(time.Second)),
			death("orders", "delivery_limit", int64(1), noon),
		}}, "3@1700000001"},
		{"count of another width", amqp.Table{"x-death": []any{death("orders", "rejected", int32(4), noon)}}, "4@1700000000"},
		{"the header of a replay", amqp.Table{LifeHeader: "r1"}, "header:r1"},
		{"the header comes first", amqp.Table{LifeHeader: "r1", "x-death": []any{death("orders", "rejected", int64(1), noon)}}, "header:r1"},
		{"an empty header", amqp.Table{LifeHeader: ""}, ""},
		{"a header that is no text", amqp.Table{LifeHeader: int64(1)}, ""},
		{"x-death that is no list", amqp.Table{"x-death": "yesterday"}, ""},
		{"x-death of no tables", amqp.Table{"x-death": []any{"a", nil, int64(1)}}, ""},
		{"x-death without fields", amqp.Table{"x-death": []any{amqp.Table{}}}, ""},
		{"x-death with odd fields", amqp.Table{"x-death": []any{amqp.Table{"queue": "orders", "reason": []any{}}}}, ""},
		{"rejected, with odd count and time", amqp.Table{"x-death": []any{amqp.Table{"queue": "orders", "reason": "rejected", "count": "many", "time": "late"}}}, "0@-62135596800"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := life(tc.headers, "orders"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// FuzzLife feeds x-death headers of every form that JSON can express.
func FuzzLife(f *testing.F) {
	f.Add(`[{"queue":"orders","reason":"rejected","count":1,"time":2}]`)
	f.Add(`[[],{},null,{"queue":{}}]`)
	f.Add(`"yesterday"`)
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		headers := amqp.Table{"x-death": tables(v), LifeHeader: tables(v)}
		if a, b := life(headers, "orders"), life(headers, "orders"); a != b {
			t.Errorf("one message has two lives: %q and %q", a, b)
		}
	})
}

// tables turns JSON's objects into AMQP's.
func tables(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := amqp.Table{}
		for k, x := range v {
			out[k] = tables(x)
		}
		return out
	case []any:
		for i := range v {
			v[i] = tables(v[i])
		}
	}
	return v
}
