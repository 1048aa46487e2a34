package consumer

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
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
		{"rejected, with odd count and time", amqp.Table{"x-death": []any{amqp.Table{"queue": "orders", "reason": "rejected", "count": "many", "time": "late"}}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := life(tc.headers, "orders"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// FuzzLife feeds x-death headers of every form that a publisher can send: JSON with what AMQP has beyond it, see typed.
func FuzzLife(f *testing.F) {
	for _, seed := range []string{
		`[{"queue":"orders","reason":"rejected","count":1,"time":"2026-01-02T03:04:05Z"}]`,
		`[{"queue":"orders","reason":"delivery_limit","count":-9223372036854775808,"time":"9999-12-31T23:59:59Z"}]`,
		`[{"queue":"orders","reason":"rejected","count":9223372036854775808,"time":1}]`,
		`[{"queue":"orders","reason":"rejected","count":{"count":1},"time":[]}]`,
		`[{"queue":"0x6f7264657273","reason":"0x72656a6563746564","count":"1"}]`,
		`[{"queue":["orders"],"reason":{"rejected":true}},{"queue":"orders","reason":"rejected"}]`,
		`[null,[],[[{"queue":"orders","reason":"rejected"}]],{"queue":"orders","reason":"rejected","time":null}]`,
		`{"queue":"orders","reason":"rejected"}`, `[{}]`, `[]`, `""`, `"yesterday"`, `null`, `1e999`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		headers := amqp.Table{"x-death": typed(v)}
		got := life(headers, "orders")
		if again := life(headers, "orders"); again != got {
			t.Errorf("one message has two lives: %q and %q", got, again)
		}
		if strings.HasPrefix(got, "header:") {
			t.Errorf("the broker's header made the life of a replay: %q", got)
		}
		headers[LifeHeader] = typed(v)
		name, isText := headers[LifeHeader].(string)
		if replayed := life(headers, "orders"); isText && name != "" && replayed != "header:"+name || (!isText || name == "") && replayed != got {
			t.Errorf("with the header of a replay the life is %q, not %q", replayed, got)
		}
	})
}

// typed turns JSON into what AMQP tables hold: objects into tables, whole numbers into integers of 32 or 64 bits, texts that
// are times into times, and texts of 0x and hexadecimal digits into bytes.
func typed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := amqp.Table{}
		for k, x := range v {
			out[k] = typed(x)
		}
		return out
	case []any:
		for i := range v {
			v[i] = typed(v[i])
		}
	case float64:
		switch {
		case v != math.Trunc(v):
		case math.Abs(v) < 1<<31:
			return int32(v)
		case math.Abs(v) < 1<<63:
			return int64(v)
		}
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			return at
		}
		if digits, ok := strings.CutPrefix(v, "0x"); ok {
			if b, err := hex.DecodeString(digits); err == nil {
				return b
			}
		}
	}
	return v
}
