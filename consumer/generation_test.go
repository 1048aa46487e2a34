package consumer

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
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
		{"the header of a replay", amqp.Table{GenerationHeader: "r1"}, "header:r1"},
		{"dead again since the replay, and moved back", amqp.Table{GenerationHeader: "r1", "x-death": []any{death("orders", "rejected", int64(1), noon)}}, "1@1700000000 header:r1"},
		{"dead elsewhere since the replay", amqp.Table{GenerationHeader: "r1", "x-death": []any{death("bills", "rejected", int64(1), noon)}}, "header:r1"},
		{"an empty header", amqp.Table{GenerationHeader: ""}, ""},
		{"a header that is no text", amqp.Table{GenerationHeader: int64(1)}, ""},
		{"x-death that is no list", amqp.Table{"x-death": "yesterday"}, ""},
		{"x-death of no tables", amqp.Table{"x-death": []any{"a", nil, int64(1)}}, ""},
		{"x-death without fields", amqp.Table{"x-death": []any{amqp.Table{}}}, ""},
		{"x-death with odd fields", amqp.Table{"x-death": []any{amqp.Table{"queue": "orders", "reason": []any{}}}}, ""},
		{"rejected, with odd count and time", amqp.Table{"x-death": []any{amqp.Table{"queue": "orders", "reason": "rejected", "count": "many", "time": "late"}}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := generation(tc.headers, "orders"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestCarriedFence: a message carries the fence of its last replay, or the end of the second of its last death if it has died since.
func TestCarriedFence(t *testing.T) {
	noon := time.Unix(1_700_000_000, 0)
	died := []any{death("orders", "rejected", int64(1), noon)}
	for _, tc := range []struct {
		name    string
		headers amqp.Table
		want    int64
	}{
		{"a new message", nil, 0},
		{"a replay", amqp.Table{FenceHeader: int64(7)}, 7},
		{"moved back", amqp.Table{"x-death": died}, 1_700_000_001_000_000},
		{"replayed, dead again, and moved back", amqp.Table{FenceHeader: int64(7), "x-death": died}, 1_700_000_001_000_000},
		{"replayed after that, by a clock that is ahead", amqp.Table{FenceHeader: int64(1_700_000_002_000_000), "x-death": died}, 1_700_000_002_000_000},
		{"below zero", amqp.Table{FenceHeader: int64(-1)}, 0},
		{"beyond what a script can count", amqp.Table{FenceHeader: int64(counter.MaxFloor + 1), "x-death": died}, 1_700_000_001_000_000},
		{"of another type", amqp.Table{FenceHeader: "7"}, 0},
		{"dead in another age", amqp.Table{"x-death": []any{death("orders", "rejected", int64(1), noon.AddDate(5000, 0, 0))}}, 0},
	} {
		if got := carriedFence(tc.headers, "orders"); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// FuzzGeneration feeds x-death headers of every form that a publisher can send: JSON with what AMQP has beyond it, see typed.
func FuzzGeneration(f *testing.F) {
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
		got := generation(headers, "orders")
		if again := generation(headers, "orders"); again != got {
			t.Errorf("one message has two generations: %q and %q", got, again)
		}
		if strings.Contains(got, "header:") {
			t.Errorf("the broker's header made the generation of a replay: %q", got)
		}
		headers[GenerationHeader], headers[FenceHeader] = typed(v), typed(v)
		want := got
		if name, _ := headers[GenerationHeader].(string); name != "" {
			want = strings.TrimPrefix(got+" header:"+name, " ")
		}
		if replayed := generation(headers, "orders"); replayed != want {
			t.Errorf("with the header of a replay the generation is %q, not %q", replayed, want)
		}
		if fence := carriedFence(headers, "orders"); fence < 0 || fence > counter.MaxFloor {
			t.Errorf("the fence is %d", fence)
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
